"""When every combination of codes gets a group: not if far fewer rows match than there are combinations."""

from typing import Any

import numpy as np
import pytest

from gamay.functions.expression import Column, Expression
from gamay.functions.vector import EncodedVector, Vector
from gamay.kernels.tuning import DIRECT_GROUPS_MAX, DIRECT_GROUPS_MAX_WIDE, SCANS_KEEP_ONE_OF
from gamay.model.types import DataType
from gamay.query.groupby.direct import plan_direct
from gamay.query.view.matches import AllDocs, DocList, DocMask, DocScan, Matches

VALUES = 100_000


def is_direct(matches: Matches, values: int = VALUES) -> bool:
    dictionary = Vector(DataType.LONG, np.arange(values), ascends=True)

    def probe(_: Expression) -> EncodedVector:
        return EncodedVector(np.empty(0, np.uint32), dictionary)

    return plan_direct([Column("k")], probe, (), matches) is not None


def scan(rows: int) -> DocScan:
    def never(first: int, last: int) -> Any:
        raise AssertionError("a plan runs no scan")

    return DocScan(0, rows, never)


def mask(kept: int) -> DocMask:
    return DocMask.of(np.arange(kept, dtype=np.int32), 0, 10 * VALUES)


@pytest.mark.parametrize(
    ("matches", "direct"),
    [
        (AllDocs(0, VALUES), True),
        (AllDocs(0, VALUES - 1), False),
        (DocList(np.arange(VALUES, dtype=np.int32)), True),
        (DocList(np.arange(VALUES - 1, dtype=np.int32)), False),
        (mask(VALUES), True),
        (mask(VALUES - 1), False),
        (scan(SCANS_KEEP_ONE_OF * VALUES), True),
        (scan(SCANS_KEEP_ONE_OF * VALUES - 1), False),
    ],
)
def test_as_many_rows_as_combinations_are_to_match(matches: Matches, direct: bool) -> None:
    assert is_direct(matches) == direct


def test_few_combinations_are_groups_for_any_rows_and_too_many_for_none() -> None:
    assert is_direct(scan(1), DIRECT_GROUPS_MAX_WIDE)
    assert not is_direct(AllDocs(0, 10 * DIRECT_GROUPS_MAX), DIRECT_GROUPS_MAX + 1)
