"""Leaves of JSON documents: every scalar with the path that leads to it, as numbers of a table of terms.

Documents lie in `data` (uint8, valid UTF-8): document i is data[offsets[i]:offsets[i + 1]]. A *node* is a path, made of
names and of "some element of an array"; node 0 is the document itself. A *term* is a node with a scalar as it is written.
Both are kept in tables of int64 records, found by open addressing (slots: the number of the record, 0 for none; a power of
two), and their texts lie in a pool of bytes. What is no JSON has no leaves; what another reader must decide on is UNSURE.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel
from gamay.kernels.json.paths import ESCAPED, MISSING, NULL, TEXT, UNSURE, is_name, read_number, read_word, skip_blanks
from gamay.kernels.raw_memory import byte_at, put_byte, put_word, word_at

# Words of a node. FIRST and NEXT: the name that came last as the first one inside, and behind this one. STAMP: the object
# that had the name last. ELEMENT: the node of the elements, 0 for none yet. HELD: whether its scalars are wanted.
PARENT, BEGIN, END, HASH, FIRST, NEXT, STAMP, ELEMENT, HELD = range(9)
NODE_WORDS = 9
# Words of a term; those of its text and hash are the same.
NODE, KIND, TERM_WORDS = PARENT, 4, 5
# What has been used of each table, and the last stamp.
NODES, TERMS, BYTES, PAIRS, STAMPS, NUM_COUNTS = range(6)
LEVELS_MAX = 1024
"""More levels than the other reader takes are no JSON."""

_BEFORE_VALUE, _BEHIND_OPENING, _BEHIND_VALUE = range(3)
_STACK_NODE, _STACK_LIST, _STACK_STAMP, _STACK_LAST, STACK_WORDS = range(5)
_QUOTE, _BACKSLASH, _SPACE = 34, 92, 32
_PRIME = np.int64(0x100000001B3)


@kernel
def _hex_digits(data: Any, position: Any, stop: Any) -> Any:
    """Return the number of four hexadecimal digits, -1 where they are none."""
    found = np.int64(0)
    if stop - position < 4:
        return np.int64(-1)
    for i in range(position, position + 4):
        byte = byte_at(data, i)
        lower = byte | 32
        if 48 <= byte <= 57:
            found = found * 16 + byte - 48
        elif 97 <= lower <= 102:
            found = found * 16 + lower - 87
        else:
            return np.int64(-1)
    return found


@kernel
def _read_text(data: Any, position: Any, stop: Any) -> tuple[Any, Any]:
    """Read a string from behind its opening quote; return (position of the closing one, kind), MISSING for what is none."""
    kind = TEXT
    while position < stop:
        byte = byte_at(data, position)
        if byte == _QUOTE:
            return position, kind
        if byte < _SPACE:
            return position, MISSING
        if byte == _BACKSLASH:
            kind = ESCAPED
            position += 1
            if position >= stop:
                return position, MISSING
            escaped = byte_at(data, position)
            if escaped == 117:
                code = _hex_digits(data, position + 1, stop)
                if code < 0:
                    return position, MISSING
                if 0xD800 <= code < 0xE000:  # a pair of surrogates, or what is none
                    return position, UNSURE
                position += 4
            elif escaped not in (_QUOTE, _BACKSLASH, 47, 98, 102, 110, 114, 116):
                return position, MISSING
        position += 1
    return position, MISSING


@kernel
def _hash(data: Any, begin: Any, end: Any, seed: Any) -> Any:
    """Return the 64-bit FNV-1a hash of bytes, begun with a seed and mixed at the end: int64 (Fowler, Noll, Vo)."""
    found = np.int64(-3750763034362895579) ^ (seed * _PRIME)
    for i in range(begin, end):
        found = (found ^ byte_at(data, i)) * _PRIME
    return found ^ (found >> 29)


@kernel
def _keep(data: Any, begin: Any, end: Any, record: Any, words: Any, pool: Any) -> Any:
    """Copy a text to the pool, and write into a record where it lies; return how much of the pool is used then."""
    used = word_at(words, BYTES)
    put_word(record, BEGIN, used)
    put_word(record, END, used + end - begin)
    for i in range(begin, end):
        put_byte(pool, used, byte_at(data, i))
        used += 1
    put_word(words, BYTES, used)
    return used


@kernel
def _child(data: Any, begin: Any, end: Any, parent: Any, guess_at: Any, tables: Any) -> Any:
    """Return the node of a name inside another node. guess_at: the address of a guess, which is set right."""
    nodes, slots, mask, pool, words = tables[0], tables[1], tables[2], tables[6], tables[7]
    guess = word_at(guess_at, 0)
    record = nodes + guess * (8 * NODE_WORDS)
    is_child = guess > 0 and word_at(record, PARENT) == parent
    if is_child and is_name(data, begin, end, pool, word_at(record, BEGIN), word_at(record, END)):
        return guess
    hashed = _hash(data, begin, end, parent)
    slot = hashed & mask
    number = word_at(slots, slot)
    while number > 0:
        record = nodes + number * (8 * NODE_WORDS)
        same = word_at(record, HASH) == hashed and word_at(record, PARENT) == parent
        if same and is_name(data, begin, end, pool, word_at(record, BEGIN), word_at(record, END)):
            put_word(guess_at, 0, number)
            return number
        slot = (slot + 1) & mask
        number = word_at(slots, slot)
    number = _new_node(nodes, parent, words)
    record = nodes + number * (8 * NODE_WORDS)
    put_word(record, HASH, hashed)
    _keep(data, begin, end, record, words, pool)
    put_word(slots, slot, number)
    put_word(guess_at, 0, number)
    return number


@kernel
def _new_node(nodes: Any, parent: Any, words: Any) -> Any:
    number = word_at(words, NODES)
    put_word(words, NODES, number + 1)
    record = nodes + number * (8 * NODE_WORDS)
    for word in range(NODE_WORDS):
        put_word(record, word, 0)
    put_word(record, PARENT, parent)
    put_word(record, HELD, 1)
    return number


@kernel
def _element(nodes: Any, parent: Any, words: Any) -> Any:
    """Return the node of the elements of an array."""
    number = word_at(nodes + parent * (8 * NODE_WORDS), ELEMENT)
    if number == 0:
        number = _new_node(nodes, parent, words)
        put_word(nodes + number * (8 * NODE_WORDS), BEGIN, -1)
        put_word(nodes + number * (8 * NODE_WORDS), END, -1)
        put_word(nodes + parent * (8 * NODE_WORDS), ELEMENT, number)
    return number


@kernel
def _term(data: Any, begin: Any, end: Any, node: Any, kind: Any, tables: Any) -> Any:
    """Return the number of a term, from 1 on."""
    terms, slots, mask, pool, words = tables[3], tables[4], tables[5], tables[6], tables[7]
    hashed = _hash(data, begin, end, node * 16 + kind)
    slot = hashed & mask
    number = word_at(slots, slot)
    while number > 0:
        record = terms + number * (8 * TERM_WORDS)
        same = word_at(record, HASH) == hashed and word_at(record, NODE) == node and word_at(record, KIND) == kind
        if same and is_name(data, begin, end, pool, word_at(record, BEGIN), word_at(record, END)):
            return number
        slot = (slot + 1) & mask
        number = word_at(slots, slot)
    number = word_at(words, TERMS)
    put_word(words, TERMS, number + 1)
    record = terms + number * (8 * TERM_WORDS)
    put_word(record, NODE, node)
    put_word(record, KIND, kind)
    put_word(record, HASH, hashed)
    _keep(data, begin, end, record, words, pool)
    put_word(slots, slot, number)
    return number


@kernel
def _read_scalar(data: Any, position: Any, stop: Any) -> tuple[Any, Any, Any, Any]:
    """Read a scalar; return (kind, its begin and end, quotes left out, the position behind it)."""
    byte = byte_at(data, position)
    if byte == _QUOTE:
        last, kind = _read_text(data, position + 1, stop)
        return kind, position + 1, last, last + 1
    if byte == 45 or 48 <= byte <= 57:
        last, kind = read_number(data, position, stop)
        return kind, position, last, last
    last, kind = read_word(data, position, stop)
    return kind, position, last, last


@kernel
def _open(stack: Any, depth: Any, node: Any, is_list: Any, words: Any) -> None:
    frame = stack + depth * (8 * STACK_WORDS)
    put_word(words, STAMPS, word_at(words, STAMPS) + 1)
    put_word(frame, _STACK_NODE, node)
    put_word(frame, _STACK_LIST, is_list)
    put_word(frame, _STACK_STAMP, word_at(words, STAMPS))
    put_word(frame, _STACK_LAST, 0)


@kernel
def _leaves_of_one(data: Any, position: Any, stop: Any, is_known: Any, tables: Any, stack: Any, pairs: Any) -> Any:
    """Write the terms of one document behind the pairs; return NULL, or MISSING for what is no JSON, or UNSURE."""
    nodes, words = tables[0], tables[7]
    depth, node, state = np.int64(0), np.int64(0), _BEFORE_VALUE
    position = skip_blanks(data, position, stop)
    while position < stop and (depth > 0 or state == _BEFORE_VALUE):
        byte = byte_at(data, position)
        frame = stack + depth * (8 * STACK_WORDS)
        if state == _BEFORE_VALUE:
            if byte == 123 or byte == 91:
                if depth == LEVELS_MAX:
                    return UNSURE
                depth += 1
                _open(stack, depth, node, byte == 91, words)
                position = skip_blanks(data, position + 1, stop)
                state = _BEHIND_OPENING
                continue
            kind, begin, end, position = _read_scalar(data, position, stop)
            if kind == MISSING or (kind == UNSURE and not is_known):
                return kind
            if kind != NULL and word_at(nodes + node * (8 * NODE_WORDS), HELD) != 0:
                put_word(pairs, word_at(words, PAIRS), _term(data, begin, end, node, kind, tables))
                put_word(words, PAIRS, word_at(words, PAIRS) + 1)
            position = skip_blanks(data, position, stop)
            state = _BEHIND_VALUE
            continue
        is_list = word_at(frame, _STACK_LIST) != 0
        if byte == (93 if is_list else 125):
            depth -= 1
            position = skip_blanks(data, position + 1, stop)
            state = _BEHIND_VALUE
            continue
        if state == _BEHIND_VALUE:
            position = skip_blanks(data, position + 1, stop)
            if byte != 44 or position >= stop:
                return MISSING
        state = _BEFORE_VALUE
        parent = word_at(frame, _STACK_NODE)
        if is_list:
            node = _element(nodes, parent, words)
            continue
        if byte_at(data, position) != _QUOTE:
            return MISSING
        begin = position + 1
        end, kind = _read_text(data, begin, stop)
        if kind == MISSING or (kind != TEXT and not is_known):
            return UNSURE if kind == ESCAPED else kind
        position = skip_blanks(data, end + 1, stop)
        if position >= stop or byte_at(data, position) != 58:
            return MISSING
        position = skip_blanks(data, position + 1, stop)
        last = word_at(frame, _STACK_LAST)
        guess_at = nodes + (parent * NODE_WORDS + FIRST) * 8 if last == 0 else nodes + (last * NODE_WORDS + NEXT) * 8
        node = _child(data, begin, end, parent, guess_at, tables)
        put_word(frame, _STACK_LAST, node)
        record = nodes + node * (8 * NODE_WORDS)
        if word_at(record, STAMP) == word_at(frame, _STACK_STAMP):
            return UNSURE  # of equal names the last one counts
        put_word(record, STAMP, word_at(frame, _STACK_STAMP))
    return NULL if depth == 0 and state == _BEHIND_VALUE and position == stop else MISSING


@kernel
def leaves_of_documents(
    data: Array, offsets: Array, first: int, is_known: bool, tables: Any, stack: Array, pairs: Array, out: Any
) -> Any:
    """Write the terms of documents from `first` on; return the first that was left as some table may be too small for it.

    is_known: whether the documents are what the other reader wrote of its values. tables: nodes int64 [n, NODE_WORDS],
    slots of nodes, terms int64 [n, TERM_WORDS], slots of terms, a pool (uint8), and what is used of each, int64
    [NUM_COUNTS]. stack: int64 [LEVELS_MAX + 1, STACK_WORDS]. pairs: int64, the terms of the documents end to end. out: ends
    (int64) where those of each end, and kinds (uint8): MISSING for what is no JSON, UNSURE for what has been left out.
    """
    nodes, node_slots, terms, term_slots, pool, words = tables
    ends, kinds = out
    source, used, room = data.ctypes.data, words.ctypes.data, pairs.ctypes.data
    addresses = (
        nodes.ctypes.data,
        node_slots.ctypes.data,
        np.int64(len(node_slots) - 1),
        terms.ctypes.data,
        term_slots.ctypes.data,
        np.int64(len(term_slots) - 1),
        pool.ctypes.data,
        used,
    )
    for i in range(first, len(kinds)):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        size = end - begin + 2  # no document has more nodes, terms or bytes of them than bytes itself
        if (
            words[NODES] + size > len(nodes)
            or words[TERMS] + size > len(terms)
            or words[BYTES] + size > len(pool)
            or words[PAIRS] + size > len(pairs)
        ):
            return i
        before = words[PAIRS]
        kind = _leaves_of_one(source, begin, end, is_known, addresses, stack.ctypes.data, room)
        if kind != NULL:
            words[PAIRS] = before
        kinds[i] = kind
        ends[i] = words[PAIRS]
    return len(kinds)


@kernel
def fill_slots(records: Array, first: int, last: int, slots: Array) -> None:
    """Enter records [first, last) of a table into empty slots by their hash; those of elements, without text, are left."""
    mask = len(slots) - 1
    for number in range(first, last):
        if records[number, BEGIN] < 0:
            continue
        slot = records[number, HASH] & mask
        while slots[slot] > 0:
            slot = (slot + 1) & mask
        slots[slot] = number
