"""JSON documents as terms: each is a path and the text of a scalar at it, with the documents that have it.

Texts are those that JSON_MATCH compares (`gamay.functions.scalar.json.path.json_text`). Documents are processed in batches
by
`gamay.kernels.json.leaves`; those with rare syntax are first parsed by `parse_document` and serialised again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError, QueryError
from gamay.functions.arrow import binary_buffers
from gamay.functions.convert import convert_values
from gamay.functions.scalar.json.path import json_text, read_texts
from gamay.functions.scalar.json.scan import Found
from gamay.functions.scalar.json.steps import MISSING, compact, parse_document
from gamay.kernels.json.leaves import (
    BEGIN,
    BYTES,
    END,
    HELD,
    KIND,
    LEVELS_MAX,
    NODE,
    NODE_WORDS,
    NODES,
    NUM_COUNTS,
    PAIRS,
    PARENT,
    STACK_WORDS,
    TERM_WORDS,
    TERMS,
    fill_slots,
    leaves_of_documents,
)
from gamay.kernels.json.paths import LARGE, NULL, REAL, UNSURE
from gamay.kernels.json.paths import MISSING as NO_JSON
from gamay.model.index.json_index import Levels
from gamay.model.types import DataType
from gamay.segment.spi import Ids

_FIRST_ROOM = 1 << 12
_TEXT_BYTES_MAX = 1 << 30
_LEAVES_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Leaves:
    """The terms of documents. paths: by node; nodes: int64 [n], of each term; texts: [n].

    terms: int32, those of all documents end to end, cut by offsets: int64 [num_documents + 1]. invalid: the documents that
    are not JSON; unread: those that only JSON_MATCH itself can read (both int64, ascending).
    """

    paths: Sequence[Levels]
    nodes: Ids
    texts: pa.StringArray
    terms: Ids
    offsets: Ids
    invalid: Ids
    unread: Ids


def flatten(batches: Iterable[pa.StringArray], holds: Callable[[Levels], bool]) -> Leaves:
    """Return the terms of documents at the paths that `holds` selects."""
    tables = _Tables()
    parts: list[_Part] = []
    first = 0
    for batch in batches:
        parts.append(_part(tables, batch, first))
        tables.mark_held(holds)
        first += len(batch)
    terms = np.concatenate([np.empty(0, np.int32), *(part.terms for part in parts)])
    sizes = np.concatenate([np.zeros(1, np.int64), *(part.sizes for part in parts)])
    numbers, nodes, texts = tables.held_terms(terms)
    kept = numbers[terms] >= 0
    counts = np.concatenate(([0], np.cumsum(kept)))[np.cumsum(sizes)]
    if counts[-1] > _LEAVES_MAX:
        raise InvalidConfigError("the documents have more than 2,147,483,647 values; exclude paths")
    return Leaves(
        tables.paths,
        nodes,
        texts,
        numbers[terms[kept]],
        counts,
        np.concatenate([np.empty(0, np.int64), *(part.invalid for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.unread for part in parts)]),
    )


@dataclass(frozen=True)
class _Part:
    """One batch: terms int32, their number per document, and documents as in `Leaves`."""

    terms: Ids
    sizes: Ids
    invalid: Ids
    unread: Ids


def _part(tables: "_Tables", documents: pa.StringArray, first: int) -> _Part:
    terms, ends, kinds = tables.add(documents, is_known=False)
    sizes = np.diff(ends, prepend=0)
    rare = np.flatnonzero(kinds == UNSURE)
    if len(rare):
        texts = [_rewritten(documents[place].as_py()) for place in rare.tolist()]
        more, more_ends, more_kinds = tables.add(pa.array([text or "" for text in texts], pa.string()), is_known=True)
        sizes[rare] = np.diff(more_ends, prepend=0)
        terms = np.insert(terms, np.repeat(ends[rare], sizes[rare]), more)
        is_read = (more_kinds == NULL) | np.array([text == "" for text in texts])
        kinds[rare] = np.where(is_read, more_kinds, UNSURE)
    return _Part(terms, sizes, first + np.flatnonzero(kinds == NO_JSON), first + np.flatnonzero(kinds == UNSURE))


def _rewritten(document: str) -> str | None:
    """Return a document parsed and serialised, with unique names; "" if it is not JSON, None if it cannot be serialised."""
    value = parse_document(document)
    try:
        return "" if value is MISSING else compact(value)
    except QueryError:
        return None


class _Tables:
    """The growing tables of `gamay.kernels.json.leaves`. paths: of each node so far."""

    def __init__(self) -> None:
        self._nodes = np.zeros((_FIRST_ROOM, NODE_WORDS), np.int64)
        self._terms = np.zeros((_FIRST_ROOM, TERM_WORDS), np.int64)
        self._node_slots, self._term_slots = np.zeros(2 * _FIRST_ROOM, np.int64), np.zeros(2 * _FIRST_ROOM, np.int64)
        self._pool = np.empty(_FIRST_ROOM, np.uint8)
        self._words = np.zeros(NUM_COUNTS, np.int64)
        self._words[[NODES, TERMS]] = 1  # the document itself, and no term
        self._nodes[0, HELD] = 1
        self._pairs = np.empty(_FIRST_ROOM, np.int64)
        self._stack = np.empty((LEVELS_MAX + 1, STACK_WORDS), np.int64)
        self.paths: list[Levels] = [()]
        self._holds = np.ones(1, np.bool_)

    def add(self, documents: pa.StringArray, *, is_known: bool) -> tuple[Ids, Ids, Ids]:
        """Return the terms of documents (int32), the end of each document's terms (int64), and the documents' kinds
        (uint8)."""
        offsets, data = binary_buffers(documents)
        ends, kinds = np.zeros(len(documents), np.int64), np.zeros(len(documents), np.uint8)
        self._words[PAIRS] = done = 0
        while True:
            tables = self._nodes, self._node_slots, self._terms, self._term_slots, self._pool, self._words
            done = leaves_of_documents(data, offsets, done, is_known, tables, self._stack, self._pairs, (ends, kinds))
            if done == len(documents):
                return self._pairs[: self._words[PAIRS]].astype(np.int32), ends, kinds
            self._grow(int(offsets[done + 1] - offsets[done]) + 2)

    def _grow(self, size: int) -> None:
        """Grow the tables for a document of `size` bytes."""
        used = self._words
        self._nodes, self._node_slots = _grown(self._nodes, self._node_slots, int(used[NODES]), size)
        self._terms, self._term_slots = _grown(self._terms, self._term_slots, int(used[TERMS]), size)
        self._pool = _longer(self._pool, int(used[BYTES]), size)
        self._pairs = _longer(self._pairs, int(used[PAIRS]), size)

    def mark_held(self, holds: Callable[[Levels], bool]) -> None:
        """Determine which of the new nodes `holds` selects, so that scalars of the others are skipped from now on."""
        known, count = len(self.paths), int(self._words[NODES])
        for parent, begin, end in self._nodes[known:count][:, [PARENT, BEGIN, END]].tolist():
            self.paths.append((*self.paths[parent], None if begin < 0 else self._name(begin, end)))
        held = np.array([holds(path) for path in self.paths[known:]], np.bool_)
        if known == 1:
            self._holds = np.array([holds(())])
        self._holds = np.concatenate((self._holds, held))
        self._nodes[:count, HELD] = self._holds

    def _name(self, begin: int, end: int) -> str:
        name = self._pool[begin:end].tobytes()
        return str(orjson.loads(b'"' + name + b'"')) if b"\\" in name else name.decode()

    def held_terms(self, occurring: Ids) -> tuple[Ids, Ids, pa.StringArray]:
        """Number the selected terms that occur; return the number of each term (-1 for others), nodes and texts."""
        occurs = np.zeros(int(self._words[TERMS]), np.bool_)
        occurs[occurring] = True
        terms = self._terms[: len(occurs)]
        kept = np.flatnonzero(occurs & self._holds[terms[:, NODE]])
        numbers = np.full(len(occurs), -1, np.int32)
        numbers[kept] = np.arange(len(kept), dtype=np.int32)
        terms = terms[kept]
        return numbers, terms[:, NODE].copy(), _texts(self._pool, terms)


def _grown(records: Ids, slots: Ids, used: int, size: int) -> tuple[Ids, Ids]:
    if used + size <= len(records):
        return records, slots
    longer = _longer(records, used, size)
    if 2 * len(longer) > len(slots):
        slots = np.zeros(1 << (2 * len(longer) - 1).bit_length(), np.int64)
        fill_slots(longer, 1, used, slots)
    return longer, slots


def _longer(array: Ids, used: int, size: int) -> Ids:
    if used + size <= len(array):
        return array
    longer = np.zeros((max(2 * len(array), used + size), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


def _texts(pool: Ids, terms: Ids) -> pa.StringArray:
    """Return the texts of terms as JSON_MATCH compares them; raises InvalidConfigError if they are too long in total."""
    begins, ends = terms[:, BEGIN].copy(), terms[:, END].copy()
    if int((ends - begins).sum()) > _TEXT_BYTES_MAX:
        raise InvalidConfigError("the different values of the documents take more than 1 GB; exclude paths, or long values")
    found = Found(terms[:, KIND].astype(np.uint8), begins, ends, pool)
    texts = read_texts(found, np.arange(len(terms)))
    for kinds, read in (((REAL,), _real_texts), ((LARGE, UNSURE), _number_texts)):
        if len(rows := found.rows(*kinds)):
            texts = pc.replace_with_mask(texts, pa.array(found.is_one_of(*kinds)), read(found.texts(rows)))
    return texts


def _real_texts(numbers: pa.StringArray) -> pa.StringArray:
    return convert_values(pc.cast(numbers, pa.float64()).to_numpy(), DataType.DOUBLE, DataType.STRING)


def _number_texts(numbers: pa.StringArray) -> pa.StringArray:
    return pa.array(map(json_text, orjson.loads(f"[{','.join(numbers.to_pylist())}]")), pa.string())
