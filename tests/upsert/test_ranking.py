"""What names of segments tell: the same to the keys of a partition as to the cluster."""

import pytest

from gamay.cluster.llc_name import LlcName
from gamay.upsert.ranking import partition_of, sequence_of

TIME = "20260102T0304Z"


@pytest.mark.parametrize("table", ["t", "orders", "_t", "my_table", "a.b", "t1_2", "日本"])
def test_names_of_consumed_segments(table: str) -> None:
    name = f"{table}__12__3__{TIME}"
    assert LlcName.must_parse(name) == LlcName(table, 12, 3, TIME)
    assert (partition_of(name), sequence_of(name)) == (12, 3)


@pytest.mark.parametrize("name", [f"t___1__2__{TIME}", f"__1__2__{TIME}", f"t__1__{TIME}", f"a__t__1__2__{TIME}", "t_1_2"])
def test_other_names(name: str) -> None:
    assert LlcName.parse(name) is None
    assert sequence_of(name) is None


def test_names_of_uploaded_segments() -> None:
    name = f"compacted__t__7__{TIME}__1"
    assert (partition_of(name), sequence_of(name)) == (7, None)
