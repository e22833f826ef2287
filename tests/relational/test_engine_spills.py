"""Joins and sorts that exceed their memory spill to the disk space of queries, and nowhere else."""

from pathlib import Path

import pyarrow as pa
import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.query.limits.spill_files import SPILL_SETTING, SpillSpace
from gamay.relational.engine import Engine

_ROWS = pa.table({"k": pa.array(range(3_000_000), pa.int64())})
_SORT = "SELECT COUNT(*) FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY hash(k)) AS n FROM rows_of_t) WHERE n > 0"


class _Unlimited:
    def check(self) -> None:
        pass


def _run(engine: Engine) -> int:
    result, _ = engine.run(_SORT, {"rows_of_t": _ROWS}, (), 40 << 20, _Unlimited())
    return int(result.column(0)[0].as_py())


def test_a_sort_larger_than_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = Engine(1, SpillSpace(tmp_path / "spill"))
    assert _run(engine) == 3_000_000
    assert [each.name for each in tmp_path.iterdir()] == ["spill"]
    assert len(list((tmp_path / "spill").iterdir())) == 1
    engine.close()
    assert list((tmp_path / "spill").iterdir()) == []


def test_no_more_disk_than_queries_may_take(tmp_path: Path) -> None:
    space = SpillSpace(tmp_path, max_bytes=0)
    engine = Engine(1, space)
    with pytest.raises(QueryError, match=SPILL_SETTING) as failed:
        _run(engine)
    assert failed.value.code is ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED
    space.max_bytes = 1 << 30  # as a setting of the cluster may, while the broker runs
    assert _run(engine) == 3_000_000
    engine.close()
