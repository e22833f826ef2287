"""The JSON index on disk: writer, reader and check.

    paths.texts     := JSON array for each path that occurs, ascending as bytes: names, and null for the elements of an array
    paths.terms     := i64[p + 1]: path i has the terms [i64[i], i64[i + 1])
    terms.texts     := UTF-8 of each value at a path, ascending as bytes within it, in the form that JSON_MATCH compares
    terms.numbers   := f64[t]: the number that the text denotes, NaN for none
    terms.docs      := for each term the docs that have it
    paths.docs      := for each path the docs that have a value at it
    paths.long      := for each path the docs that have a value at it that is too long to be a term
    rare            := two sets of docs: those that are not JSON, and those that only JSON_MATCH itself can read

Texts of a kind K are K.offsets := i32[n + 1] and K.bytes; sets of docs are those of `gamay.segment.index.bitmaps`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.arrow import binary_buffers
from gamay.functions.scalar.json.match import number_in
from gamay.kernels.encode.encoding import list_indices
from gamay.model.index.json_index import Levels
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.index.bitmaps import DocSets, docs_by_key, write_sets
from gamay.segment.secondary.files import read_buffers, write_buffers
from gamay.segment.secondary.json_index.flatten import Leaves
from gamay.segment.spi import Ids

_PATHS, _TERMS = "paths.texts", "terms.texts"
_PATH_TERMS, _NUMBERS = "paths.terms", "terms.numbers"
_TERM_DOCS, _PATH_DOCS, _LONG_DOCS, _RARE_DOCS = "terms.docs", "paths.docs", "paths.long", "rare"
# numbers that Arrow parses like Python, and other texts that Python may parse as numbers
_PLAIN_NUMBER = r"^-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?$"
_PERHAPS_NUMBER = r"(?i)^[\x00-\x20]*[+-]?([0-9.]|inf|nan)|[^\x00-\x7f]"


def path_key(levels: Levels) -> bytes:
    """Return a path in the form of the index."""
    return orjson.dumps(levels)


# Write


def write_index(leaves: Leaves, ids: "Ids | None", value_length_max: int, folder: Path) -> dict[str, Any]:
    """Write the index of documents; return what `StoredTerms` needs to find them.

    ids: if documents are the entries of a dictionary, the entry of each doc. value_length_max: of terms, in characters; 0 is
    unlimited.
    """
    paths, ranks = _ranked(leaves)
    keys, texts = leaves.terms, leaves.texts
    order = pc.sort_indices(pa.table({"path": ranks, "text": texts}), [("path", "ascending"), ("text", "ascending")])
    ranks, texts = ranks[order.to_numpy()], texts.take(order)
    is_new = np.ones(len(texts), np.bool_)
    is_new[1:] = (ranks[1:] != ranks[:-1]) | np.asarray(pc.not_equal(texts[1:], texts[:-1]))
    numbers = np.empty(len(texts), np.int32)
    numbers[order.to_numpy()] = np.cumsum(is_new) - 1
    keys, ranks, texts = numbers[keys], ranks[is_new], texts.filter(pa.array(is_new))
    offsets = leaves.offsets
    invalid, unread = leaves.invalid, leaves.unread
    if ids is not None:
        keys, offsets = _of_rows(keys, offsets, ids)
        invalid, unread = np.flatnonzero(np.isin(ids, invalid)), np.flatnonzero(np.isin(ids, unread))
    is_long = np.asarray(pc.utf8_length(texts)) > value_length_max if value_length_max else np.zeros(len(texts), np.bool_)
    return _write(paths, ranks, texts, is_long, keys, offsets, (invalid, unread), folder)


def _ranked(leaves: Leaves) -> tuple[list[bytes], Ids]:
    """Return the paths that occur, ascending, and the path of each term: int32."""
    nodes, places = np.unique(leaves.nodes, return_inverse=True)
    encoded = [path_key(leaves.paths[node]) for node in nodes.tolist()]
    paths = sorted(set(encoded))
    rank_of = {path: rank for rank, path in enumerate(paths)}
    return paths, np.array([rank_of[path] for path in encoded], np.int32)[places]


def _of_rows(keys: Ids, offsets: Ids, ids: Ids) -> tuple[Ids, Ids]:
    """Return the terms of rows, given those of the entries and the entry of each row."""
    starts, ends = offsets[:-1][ids].astype(np.int64), offsets[1:][ids].astype(np.int64)
    row_offsets = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(ends - starts, out=row_offsets[1:])
    positions = np.empty(int(row_offsets[-1]), np.int64)
    list_indices(starts, ends, positions)
    return keys[positions], row_offsets


def _write(
    paths: Sequence[bytes], ranks: Ids, texts: pa.StringArray, is_long: Ids, keys: Ids, offsets: Ids,
    rare: tuple[Ids, Ids], folder: Path,
) -> dict[str, Any]:  # fmt: skip
    kept = np.flatnonzero(~is_long)
    numbers = np.full(len(texts), -1, np.int32)
    numbers[kept] = np.arange(len(kept), dtype=np.int32)
    terms, term_offsets = _chosen(numbers[keys], offsets)
    long_paths, long_offsets = _chosen(np.where(is_long[keys], ranks[keys], -1), offsets)
    texts = texts.take(pa.array(kept))
    path_terms = np.searchsorted(ranks[kept], np.arange(len(paths) + 1)).astype(np.int64)
    rare_starts = np.cumsum([0, len(rare[0]), len(rare[1])])

    def write(writer: BufferWriter) -> list[BufferMeta]:
        return [
            *_write_texts(writer, _PATHS, pa.array(paths, pa.binary())),
            writer.add(_PATH_TERMS, [path_terms]),
            *_write_texts(writer, _TERMS, texts),
            writer.add(_NUMBERS, [numbers_of(texts)]),
            *write_sets(writer, _TERM_DOCS, *docs_by_key(terms, len(kept), term_offsets)),
            *write_sets(writer, _PATH_DOCS, *docs_by_key(ranks[keys], len(paths), offsets)),
            *write_sets(writer, _LONG_DOCS, *docs_by_key(long_paths, len(paths), long_offsets)),
            *write_sets(writer, _RARE_DOCS, rare_starts, np.concatenate(rare).astype(np.uint32)),
        ]

    return {"buffers": write_buffers(folder, write), "docs": len(offsets) - 1, "paths": len(paths), "terms": len(kept)}


def _chosen(keys: Ids, offsets: Ids) -> tuple[Ids, Ids]:
    """Remove the keys that are -1; return the others and their offsets."""
    chosen = keys >= 0
    return keys[chosen], np.concatenate(([0], np.cumsum(chosen)))[offsets]


def _write_texts(writer: BufferWriter, kind: str, texts: pa.Array) -> list[BufferMeta]:
    offsets, data = binary_buffers(texts)
    return [writer.add(f"{kind}.offsets", [offsets]), writer.add(f"{kind}.bytes", [data])]


def numbers_of(texts: pa.StringArray) -> Ids:
    """Convert texts like Python's `float`, with NaN for invalid ones: float64."""
    numbers = np.full(len(texts), np.nan)
    plain = np.asarray(pc.match_substring_regex(texts, _PLAIN_NUMBER))
    numbers[plain] = pc.cast(texts.filter(pa.array(plain)), pa.float64()).to_numpy()
    others = np.flatnonzero(~plain & np.asarray(pc.match_substring_regex(texts, _PERHAPS_NUMBER)))
    numbers[others] = [np.nan if (n := number_in(text)) is None else n for text in texts.take(pa.array(others)).to_pylist()]
    return numbers


# Read


@dataclass(frozen=True)
class Texts:
    """Ascending texts: int32 offsets [n + 1] and bytes."""

    offsets: Ids
    data: Ids

    def get(self, place: int) -> bytes:
        """Return the text at a position."""
        return self.data[self.offsets.item(place) : self.offsets.item(place + 1)].tobytes()

    def place_of(self, text: bytes, first: int, last: int) -> int:
        """Return the position of a text in [first, last), or -1."""
        end = last
        while first < last:
            middle = (first + last) // 2
            if self.get(middle) < text:
                first = middle + 1
            else:
                last = middle
        return first if first < end and self.get(first) == text else -1

    def array(self, first: int, last: int) -> pa.StringArray:
        """Return the texts in [first, last)."""
        return pa.StringArray.from_buffers(len(self.offsets) - 1, pa.py_buffer(self.offsets), pa.py_buffer(self.data)).slice(
            first, last - first
        )


class StoredTerms:
    """The stored index. numbers: float64, of each term; docs: sets by term; path_docs, long_docs: sets by path."""

    def __init__(self, file: BufferFile, buffers: dict[str, BufferMeta], num_docs: int) -> None:
        self.num_docs = num_docs
        self.texts = _read_texts(file, buffers, _TERMS)
        self.numbers = file.array(buffers[_NUMBERS], np.float64)
        self.docs = DocSets(file, buffers, _TERM_DOCS)
        self.path_docs = DocSets(file, buffers, _PATH_DOCS)
        self.long_docs = DocSets(file, buffers, _LONG_DOCS)
        self.rare_docs = DocSets(file, buffers, _RARE_DOCS)
        self._paths = _read_texts(file, buffers, _PATHS)
        self._path_terms = file.array(buffers[_PATH_TERMS], np.int64)

    @staticmethod
    def read(folder: Path, content: Mapping[str, Any]) -> "StoredTerms":
        """Open the index. content: the result of `write_index`."""
        return StoredTerms(*read_buffers(folder, content["buffers"]), content["docs"])

    def path(self, levels: Levels) -> "tuple[int, int, int] | None":
        """Return the number of a path and the range [first, last) of its terms; None if it does not occur."""
        number = self._paths.place_of(path_key(levels), 0, len(self._path_terms) - 1)
        return None if number < 0 else (number, self._path_terms.item(number), self._path_terms.item(number + 1))


def _read_texts(file: BufferFile, buffers: Mapping[str, BufferMeta], kind: str) -> Texts:
    return Texts(file.array(buffers[f"{kind}.offsets"], np.int32), file.array(buffers[f"{kind}.bytes"], np.uint8))


# Check


def check_index(folder: Path, content: Mapping[str, Any], owner: str, num_docs: int) -> None:
    """Raise CorruptSegmentError unless untrusted files are a valid index of `num_docs` docs."""
    file, buffers = read_buffers(folder, content["buffers"])
    checker = BufferChecker(file, buffers, owner)
    num_paths, num_terms = int(content["paths"]), int(content["terms"])
    checker.expect(_PATHS, content["docs"] == num_docs, "not of this column")
    checker.expect(_PATHS, num_paths >= 0 and num_terms >= 0, "numbers of paths and terms below 0")
    starts = checker.array(_PATH_TERMS, np.int64, num_paths + 1)
    checker.offsets(_PATH_TERMS, starts, num_terms)
    _check_texts(checker, _PATHS, num_paths, np.array([0, num_paths]))
    _check_texts(checker, _TERMS, num_terms, starts)
    checker.array(_NUMBERS, np.float64, num_terms)
    for kind, count in ((_TERM_DOCS, num_terms), (_PATH_DOCS, num_paths), (_LONG_DOCS, num_paths), (_RARE_DOCS, 2)):
        checker.sets(kind, count, num_docs)


def _check_texts(checker: BufferChecker, kind: str, count: int, starts: Ids) -> None:
    """Check that texts ascend within each range between the starts."""
    offsets, data = checker.array(f"{kind}.offsets", np.int32, count + 1), checker.array(f"{kind}.bytes", np.uint8)
    checker.offsets(f"{kind}.offsets", offsets, len(data))
    texts = Texts(offsets, data).array(0, count)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        checker.expect(f"{kind}.bytes", False, "no UTF-8")
    ascends = np.asarray(pc.greater(texts[1:], texts[:-1]), np.bool_)
    is_start = np.zeros(count + 1, np.bool_)
    is_start[starts] = True
    checker.expect(f"{kind}.bytes", (ascends | is_start[1:count]).all(), "texts that do not ascend")
