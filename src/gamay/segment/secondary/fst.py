"""FST and IFST index: the dictionary entries that a LIKE pattern or regular expression can match, by trigrams.

    trigrams.codes := u32[n], ascending: the trigrams that occur (`gamay.kernels.text.trigrams`)
    trigrams.starts trigrams.counts trigrams.sets := for each of them the entries that contain it, see
                      gamay.segment.index.bitmaps

Pinot traverses a finite-state transducer over the dictionary, which helps if a pattern starts with literal text. Trigrams
help whenever it contains three literal characters in a row, in any case, so both kinds have one implementation (Russ Cox:
Regular Expression Matching with a Trigram Index, 2012). The entries found are candidates, against which the pattern is then
matched.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import binary_buffers
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.scalar.text.patterns import like_runs, needed_runs
from gamay.kernels.text.trigrams import mark_trigrams, number_trigrams
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferMeta, BufferWriter
from gamay.segment.index.bitmaps import DocSets, docs_by_key, write_sets
from gamay.segment.secondary.files import read_buffers, write_buffers
from gamay.segment.spi import Ids, IndexSource, SecondaryIndex

_SETS = "trigrams"
_CODES = "trigrams.codes"
_SIZE = 3
_TRIGRAMS = 1 << 24
# maximum number of trigrams of a pattern to look up, the rarest ones; more would exclude little
_LOOKED_UP = 6
# Matching this number of entries is cheaper than reading another set.
_FEW = 64
# Matching a scattered candidate costs more than matching an entry in a sequential scan.
_WORTH_IT = 4


class TrigramIndexType:
    """Implements `IndexType` for columns with a dictionary of texts."""

    needs = None
    extra = None
    of_blocks = False
    is_portable = True

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        (column,) = columns
        dictionary = column.dictionary
        if dictionary is None or not dictionary.data_type.is_text:
            raise InvalidConfigError(f"the {self.kind} index of '{column.name}' needs a dictionary of texts")
        offsets, data = binary_buffers(dictionary.values.values)
        codes, starts, entries = _entries_by_trigram(data, offsets)

        def write(writer: BufferWriter) -> list[BufferMeta]:
            return [writer.add(_CODES, [codes]), *write_sets(writer, _SETS, starts, entries)]

        is_ascii = bool(len(data) == 0 or int(np.max(data)) < 128)
        return {"buffers": write_buffers(folder, write), "entries": len(dictionary), "isAscii": is_ascii}

    def open(
        self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource], settings: Mapping[str, Any]
    ) -> "TrigramIndex":
        file, buffers = read_buffers(folder, content["buffers"])
        sets = DocSets(file, buffers, _SETS)
        codes = file.array(buffers[_CODES], np.uint32)
        return TrigramIndex(self.kind, columns[0].name, codes, sets, content["entries"], is_ascii=content["isAscii"])

    def check(self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource]) -> None:
        file, buffers = read_buffers(folder, content["buffers"])
        dictionary = columns[0].dictionary
        entries = 0 if dictionary is None else len(dictionary)
        checker = BufferChecker(file, buffers, f"{self.kind} index of '{columns[0].name}'")
        codes = checker.array(_CODES, np.uint32)
        checker.expect(_CODES, content["entries"] == entries, "not of this dictionary")
        checker.expect(_CODES, (codes[1:] > codes[:-1]).all(), "trigrams do not ascend")
        checker.sets(_SETS, len(codes), entries)


def _entries_by_trigram(data: Ids, offsets: Ids) -> tuple[Ids, Ids, Ids]:
    """Return the trigrams that occur, uint32 [n] ascending, and starts and entries of each as from `docs_by_key`."""
    occurs = np.zeros(_TRIGRAMS, np.bool_)
    mark_trigrams(data, offsets, occurs)
    codes = np.flatnonzero(occurs).astype(np.uint32)
    number_of = np.empty(_TRIGRAMS, np.int32)
    number_of[codes] = np.arange(len(codes), dtype=np.int32)
    lengths = np.diff(offsets)
    numbers = np.empty(int(np.maximum(lengths - _SIZE + 1, 0).sum()), np.int32)
    ends = np.zeros(len(offsets), np.int32)
    number_trigrams(data, offsets, number_of, numbers, ends[1:])
    return codes, *docs_by_key(numbers, len(codes), ends)


class TrigramIndex(SecondaryIndex):
    """The trigrams of a dictionary's entries. is_ascii: whether all entries are ASCII."""

    def __init__(self, kind: str, column: str, codes: Ids, sets: DocSets, num_entries: int, *, is_ascii: bool) -> None:
        self.kind = kind
        self._column = Column(column)
        self._codes = codes
        self._sets = sets
        self._num_entries = num_entries
        self._is_ascii = is_ascii

    def entries(self, condition: Expression) -> "Ids | None":
        wanted = sorted({code for run in self._runs(condition) for code in _trigrams(run)})
        if not wanted:
            return None
        places = np.searchsorted(self._codes, wanted)
        inside = np.minimum(places, max(0, len(self._codes) - 1))
        if len(self._codes) == 0 or (self._codes[inside] != wanted).any():
            return np.empty(0, np.int32)
        sizes = self._sets.counts[places]
        if int(sizes.min()) * _WORTH_IT > self._num_entries:
            return None
        first, *others = places[np.argsort(sizes, kind="stable")][:_LOOKED_UP].tolist()
        found = self._sets.get(first)
        for place in others:
            if len(found) <= _FEW:
                break
            found &= self._sets.get(place)
        return np.frombuffer(found.to_array(), np.uint32).astype(np.int32)

    def _runs(self, condition: Expression) -> list[bytes]:
        """Return texts that every match contains, ignoring the case of ASCII letters; empty if none is known."""
        if not isinstance(condition, Call) or condition.args[:1] != (self._column,):
            return []
        constants = [arg.value for arg in condition.args[1:] if isinstance(arg, Literal)]
        if len(constants) != len(condition.args) - 1 or not constants or not all(isinstance(c, str) for c in constants):
            return []
        if condition.name == "like":
            return self._folded(like_runs(str(constants[0])))
        if condition.name == "regexplike":
            ignores_case = constants[1:] == ["i"]
            runs = needed_runs(str(constants[0]))
            return self._folded(runs) if ignores_case else [run.encode().lower() for run in runs]
        return []

    def _folded(self, runs: Sequence[str]) -> list[bytes]:
        """Split texts for case-insensitive matching at the characters that have case variants beyond ASCII."""
        return [part.encode() for run in runs for part in _plain_parts(run.lower(), splits="" if self._is_ascii else "ks")]


def _plain_parts(text: str, splits: str) -> Iterator[str]:
    part = ""
    for char in text:
        if char.isascii() and char not in splits:
            part += char
        else:
            yield part
            part = ""
    yield part


def _trigrams(run: bytes) -> Iterator[int]:
    for at in range(len(run) - _SIZE + 1):
        yield int.from_bytes(run[at : at + _SIZE], "big")


FST, IFST = TrigramIndexType("fst"), TrigramIndexType("ifst")
