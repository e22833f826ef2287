"""Conditions on what paths lead to in JSON documents: for one flattened document, or for whole columns of documents."""

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
"""One flattened document: for each path of a condition that has a value there, that value."""
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Compare: TypeAlias = Callable[[Any, Any], Any]


# kinds of values whose text is how they are written
_AS_WRITTEN = (TEXT, WHOLE, TRUE, FALSE)
# texts that are compared one after the other
_FEW = 8


@dataclass(frozen=True, slots=True)
class Leaf:
    """A test of the value at a path, which looks at the value's text only.

    compare: where numbers are compared with numbers, that comparison of float64 and its bounds. listed: the texts of which
    the value must be one, or none where it `is_negated`; None where the test is another. of_texts: the test of many texts.
    fits_any: whether every value passes.
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
        """What the condition reads."""
        return (self.path,)

    def __call__(self, record: Record) -> bool:
        return self.path in record and self.test(record[self.path])

    def of_columns(self, columns: Mapping[Path, Found]) -> Flags:
        """Tell which documents fit, given what each path leads to in all of them; those with rare values do not."""
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
        """Test each distinct text of some rows once."""
        if not len(rows):
            return
        coded = found.texts(rows).dictionary_encode()
        if read is str:
            fits = self.test_texts(coded.dictionary)
        else:
            fits = np.array([self.test(read(text)) for text in coded.dictionary.to_pylist()], np.bool_)
        flags[rows] = fits[coded.indices.to_numpy()]

    def test_texts(self, texts: pa.StringArray) -> Flags:
        """Tell which of different texts of values fit: bool [n]."""
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
        """What the conditions read, each path once."""
        return tuple(dict.fromkeys(path for part in self.parts for path in part.paths))

    def __call__(self, record: Record) -> bool:
        return (all if self.is_and else any)(part(record) for part in self.parts)

    def of_columns(self, columns: Mapping[Path, Found]) -> Flags:
        """Tell which documents fit, given what each path leads to in all of them."""
        flags = [part.of_columns(columns) for part in self.parts]
        return np.asarray((np.logical_and if self.is_and else np.logical_or).reduce(flags))


Condition: TypeAlias = Leaf | Joined


def fitting(
    condition: Condition, columns: Mapping[Path, Found], fits: Callable[[str], bool], documents: pa.Array, rows: Rows
) -> Flags:
    """Tell which of some documents fit a condition; `fits` decides on those in which something is rare."""
    flags = condition.of_columns(columns)
    is_rare = np.zeros(len(flags), np.bool_)
    for found in columns.values():
        is_rare |= found.is_rare
    for place in np.flatnonzero(is_rare).tolist():
        flags[place] = fits(documents[rows[place]].as_py())
    return flags
