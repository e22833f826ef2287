"""Conditions on the values at paths of JSON documents: for one flattened document, or for whole columns of documents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.functions.scalar.json.scan import Found
from gamay.functions.scalar.json.steps import Step
from gamay.kernels.json.paths import FALSE, REAL, TEXT, TRUE, WHOLE

Path: TypeAlias = tuple[Step, ...]
Record: TypeAlias = dict[Path, Any]
"""One flattened document: the values at those paths of a condition that exist in it."""
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Compare: TypeAlias = Callable[[Any, Any], Any]


# kinds of values whose text is their JSON form
_AS_WRITTEN = (TEXT, WHOLE, TRUE, FALSE)
# up to this many texts are compared one by one
_FEW = 8


@dataclass(frozen=True, slots=True)
class Leaf:
    """A test of the value at a path, which depends only on the value's text.

    compare: for comparisons of numbers with numbers, the comparison of float64 and its bounds. listed: the texts that the
    value must be among, or not among if `is_negated`; None for other tests. of_texts: the test for many texts. fits_any:
    whether every value passes.
    """

    path: Path
    test: Callable[[Any], bool]
    compare: tuple[Compare, Sequence[float]] | None = None
    listed: tuple[str, ...] | None = None
    is_negated: bool = False
    of_texts: Callable[[pa.StringArray], Flags] | None = None
    fits_any: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths that the condition reads."""
        return (self.path,)

    def __call__(self, record: Record) -> bool:
        return self.path in record and self.test(record[self.path])

    def of_columns(self, columns: Mapping[Path, Found]) -> Flags:
        """Return which documents match, given the values at each path in all of them; those with rare values do not."""
        found = columns[self.path]
        flags = np.zeros(len(found.kinds), np.bool_)
        if self.compare is None:
            if self.listed is not None and len(self.listed) <= _FEW:
                for text in self.listed:
                    found.mark_equal(text, _AS_WRITTEN, flags)
                if self.is_negated:
                    flags = found.is_one_of(*_AS_WRITTEN) & ~flags
            else:
                self._test_texts(found.rows(*_AS_WRITTEN), found, flags, str)
            self._test_texts(found.rows(REAL), found, flags, float)
            return flags
        compare, bounds = self.compare
        for rows, numbers in (found.wholes(), found.reals()):
            flags[rows] = compare(numbers.astype(np.float64), bounds)
        self._test_texts(found.rows(TEXT), found, flags, str)
        return flags

    def _test_texts(self, rows: Any, found: Found, flags: Flags, read: Callable[[str], Any]) -> None:
        """Test each distinct text of the given rows once."""
        if not len(rows):
            return
        coded = found.texts(rows).dictionary_encode()
        if read is str:
            fits = self.test_texts(coded.dictionary)
        else:
            fits = np.array([self.test(read(text)) for text in coded.dictionary.to_pylist()], np.bool_)
        flags[rows] = fits[coded.indices.to_numpy()]

    def test_texts(self, texts: pa.StringArray) -> Flags:
        """Return which of several distinct texts match: bool [n]."""
        if self.of_texts is not None:
            return self.of_texts(texts)
        return np.array([self.test(text) for text in texts.to_pylist()], np.bool_)


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions joined by AND or OR."""

    parts: tuple["Condition", ...]
    is_and: bool

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths that the conditions read, each once."""
        return tuple(dict.fromkeys(path for part in self.parts for path in part.paths))

    def __call__(self, record: Record) -> bool:
        return (all if self.is_and else any)(part(record) for part in self.parts)

    def of_columns(self, columns: Mapping[Path, Found]) -> Flags:
        """Return which documents match, given the values at each path in all of them."""
        flags = [part.of_columns(columns) for part in self.parts]
        return np.asarray((np.logical_and if self.is_and else np.logical_or).reduce(flags))


Condition: TypeAlias = Leaf | Joined


def fitting(
    condition: Condition, columns: Mapping[Path, Found], fits: Callable[[str], bool], documents: pa.Array, rows: Rows
) -> Flags:
    """Return which of the given documents match a condition; `fits` decides on those with rare values."""
    flags = condition.of_columns(columns)
    is_rare = np.zeros(len(flags), np.bool_)
    for found in columns.values():
        is_rare |= found.is_rare
    for place in np.flatnonzero(is_rare).tolist():
        flags[place] = fits(documents[rows[place]].as_py())
    return flags
