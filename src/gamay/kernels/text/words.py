"""Words of texts that lie end to end as UTF-8: where they begin and end, and how they compare with what is searched.

Text i is data[offsets[i]:offsets[i + 1]] (uint8, int32); word w is data[starts[w]:ends[w]] (int32). The borders are those
of Unicode (UAX #29), of which every piece with a letter, a digit, an ideograph or an emoji is a word, as in Lucene's
StandardTokenizer.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel

# what a character is for the borders of words; those up to REGIONAL can begin one
OTHER, LETTER, NUMBER, KATAKANA, JOINER, IDEOGRAPH, COMPLEX, EMOJI, REGIONAL = range(9)
# goes with what stands before it; so does the joiner of emojis
EXTENDING, EMOJI_JOINER = 9, 10
# between two letters, between two digits, between either
MID_LETTER, MID_NUMBER, MID_EITHER = 11, 12, 13


@inlined
def _code_point(data: Any, place: Any) -> Any:
    """Return the character that begins at a place, and its number of bytes."""
    first = np.int64(data[place])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | (np.int64(data[place + 1]) & 0x3F), 2
    second = (np.int64(data[place + 1]) & 0x3F) << 6 | (np.int64(data[place + 2]) & 0x3F)
    if first < 0xF0:
        return (first & 0x0F) << 12 | second, 3
    return (first & 0x07) << 18 | second << 6 | (np.int64(data[place + 3]) & 0x3F), 4


@inlined
def _class_of(code: Any, classes: Any) -> Any:
    if code < len(classes):
        return np.int64(classes[code])
    if code < 0x40000:
        return np.int64(IDEOGRAPH)
    return np.int64(EXTENDING if 0xE0000 <= code < 0xE0200 else OTHER)


@inlined
def _joins(before: Any, between: Any, kind: Any, length: Any, is_joined: Any) -> Any:
    """Whether a character goes on with a word whose last one is of class `before`, with one of `between` in between."""
    if between != OTHER:
        of_letters = before == LETTER and kind == LETTER and between != MID_NUMBER
        return of_letters or (before == NUMBER and kind == NUMBER and between != MID_LETTER)
    if kind in (LETTER, NUMBER):
        return before in (LETTER, NUMBER, JOINER)
    if kind == KATAKANA:
        return before in (KATAKANA, JOINER)
    if kind == JOINER:
        return before in (LETTER, NUMBER, KATAKANA, JOINER)
    if kind == COMPLEX:
        return before == COMPLEX
    if kind == EMOJI:
        return before == EMOJI and is_joined
    return kind == REGIONAL and before == REGIONAL and length == 1


@kernel
def split_words(
    data: Array, offsets: Array, classes: Array, length_max: int, starts: Array, ends: Array, bounds: Array
) -> Any:
    """Find the words of texts and return how many there are.

    classes: uint8, by code point; beyond its end there are ideographs. length_max: a longer word is cut after so many
    characters. starts, ends: int32, of each word; there must be room for as many words as bytes. bounds: int32 [texts + 1],
    text i has the words from bounds[i] to bounds[i + 1].
    """
    count = 0
    bounds[0] = 0
    for i in range(len(offsets) - 1):
        place, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        before, between, length = np.int64(OTHER), np.int64(OTHER), 0
        start, end = place, place
        is_word = is_joined = False
        while place < stop:
            code, size = _code_point(data, place)
            kind = _class_of(code, classes)
            if kind in (EXTENDING, EMOJI_JOINER):
                if before != OTHER and between == OTHER:
                    end = place + size
                    is_joined = kind == EMOJI_JOINER
                place += size
                continue
            if before != OTHER:
                if length < length_max and _joins(before, between, kind, length, is_joined):
                    end, length = place + size, length + 1
                    is_word = is_word or kind != JOINER
                    before, between = kind, np.int64(OTHER)
                    is_joined = False
                    place += size
                    continue
                of_letter = before == LETTER and (kind in (MID_LETTER, MID_EITHER))
                of_number = before == NUMBER and (kind in (MID_NUMBER, MID_EITHER))
                if between == OTHER and (of_letter or of_number):
                    between, length = kind, length + 1
                    place += size
                    continue
                if is_word:
                    starts[count], ends[count] = start, end
                    count += 1
                before, between = np.int64(OTHER), np.int64(OTHER)
            if LETTER <= kind <= REGIONAL:
                start, end, before, length = place, place + size, kind, 1
                is_word = kind != JOINER
                is_joined = False
            place += size
        if before != OTHER and is_word:
            starts[count], ends[count] = start, end
            count += 1
        bounds[i + 1] = count
    return count


@kernel
def equal_words(data: Array, starts: Array, ends: Array, word: Array, out: Array) -> None:
    """Set out[w] (bool) where a word is this one: uint8."""
    size = len(word)
    for w in range(len(out)):
        start = starts[w]
        same = ends[w] - start == size
        k = 0
        while same and k < size:
            same = data[start + k] == word[k]
            k += 1
        out[w] = same


@kernel
def copy_words(data: Array, starts: Array, ends: Array, offsets: Array, out: Array) -> None:
    """Lay words end to end: `out` uint8, word w is out[offsets[w]:offsets[w + 1]], int32, both to be filled."""
    place = 0
    offsets[0] = 0
    for w in range(len(starts)):
        for k in range(starts[w], ends[w]):
            out[place] = data[k]
            place += 1
        offsets[w + 1] = place


@kernel
def similar_words(data: Array, offsets: Array, word: Array, edits_max: int, prefix: int, buffers: Array, out: Array) -> None:
    """Set out[w] (bool) where at most so many edits make a word this one.

    An edit puts in, leaves out or replaces a character, or swaps two neighbours, neither of which another edit touches.
    word: its code points, int64. prefix: characters at the beginning that must be the same. buffers: int64
    [3, len(word) + 1].
    """
    size = len(word)
    for w in range(len(out)):
        for j in range(size + 1):
            buffers[1, j] = j
        place, stop, row = np.int64(offsets[w]), np.int64(offsets[w + 1]), 0
        last, fits = np.int64(-1), True
        while place < stop and fits:
            code, width = _code_point(data, place)
            place += width
            row += 1
            two, one, now = (row - 1) % 3, row % 3, (row + 1) % 3
            least = buffers[now, 0] = row
            for j in range(1, size + 1):
                cost = min(buffers[one, j], buffers[now, j - 1]) + 1
                cost = min(cost, buffers[one, j - 1] + (code != word[j - 1]))
                if row > 1 and j > 1 and code == word[j - 2] and last == word[j - 1]:
                    cost = min(cost, buffers[two, j - 2] + 1)
                buffers[now, j] = cost
                least = min(least, cost)
            fits = least <= edits_max + 1 and (row > prefix or (row <= size and code == word[row - 1]))
            last = code
        out[w] = fits and row >= prefix and buffers[(row + 1) % 3, size] <= edits_max


@kernel
def words_among(data: Array, starts: Array, ends: Array, listed: Array, offsets: Array, out: Array) -> None:
    """Set out[w] (bool) where a word is one of some: word k of these is listed[offsets[k]:offsets[k + 1]], uint8, int32.

    They come in the order of their lengths, with few of each.
    """
    count = len(offsets) - 1
    longest = offsets[count] - offsets[count - 1] if count else 0
    for w in range(len(out)):
        start, size = starts[w], ends[w] - starts[w]
        found = False
        if size <= longest:
            k = 0
            while k < count and offsets[k + 1] - offsets[k] < size:
                k += 1
            while k < count and not found and offsets[k + 1] - offsets[k] == size:
                place, j = offsets[k], 0
                while j < size and data[start + j] == listed[place + j]:
                    j += 1
                found = j == size
                k += 1
        out[w] = found


@kernel
def weigh_phrases(
    marks: Array, bounds: Array, places: Array, earlier: Array, slop: int, in_order: bool, once: bool, out: Array
) -> None:
    """Set out[i] (float64) to how often a text has a phrase, 0 where it does not: each place counts 1 / (1 + distance).

    The distance is how far the words are from where they stand in the phrase, all together; of places that lie in one
    another only the narrowest counts. once: it is enough to find one.
    marks: uint8 [elements, words], whether a word can be that element. bounds: int32 [texts + 1], as of `split_words`.
    places: int64 [elements], where each stands in the phrase, from 0, ascending. slop: the greatest distance. Not in order,
    an element takes another word than the one before it that may be the same: earlier[e], or -1.
    """
    count = len(places)
    taken = np.zeros(count, np.int64)
    for i in range(len(out)):
        first, stop = np.int64(bounds[i]), np.int64(bounds[i + 1])
        weight = 0.0
        begin = end = np.int64(0)  # of the last place that was found, which a narrower one may replace
        is_open = False
        base = first if in_order else first - places[count - 1]
        while base < stop and not (once and is_open):
            found = True
            last = base
            for e in range(count):
                low = base + places[e]
                high = min(stop - 1, low + slop)
                low = max(low, first)
                if in_order and e == 0:
                    high = base
                if in_order and e > 0:
                    low = max(low, taken[e - 1] + 1)
                if earlier[e] >= 0:
                    low = max(low, taken[earlier[e]] + 1)
                while low <= high and marks[e, low] == 0:
                    low += 1
                if low > high:
                    found = False
                    break
                taken[e] = low
                last = max(last, low - places[e])
            if found:
                if is_open and last != end:
                    weight += 1 / (1 + end - begin)
                begin, end, is_open = base, last, True
            base += 1
        out[i] = weight + 1 / (1 + end - begin) if is_open else weight
