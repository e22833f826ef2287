"""Arrow does not import pandas for Gamay, and recognises it once other code has imported it."""

import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_S

_BEFORE = """
import sys
import gamay, numpy as np, pyarrow as pa
db = gamay.connect({folder!r})
db.create_table("t", pa.table({{"city": ["Oslo", "Lima", None], "n": np.arange(3)}}))
assert db.sql("SELECT city, SUM(n) FROM t WHERE city LIKE 'O%' GROUP BY city").rows() == [("Oslo", 0.0)]
assert np.asarray(pa.array([True, False])).tolist() == [True, False]
assert "pandas" not in sys.modules
"""
_AFTER = {
    "by the user": "import pandas",
    "by Arrow": "frame = db.sql('SELECT n FROM t').to_pandas(); assert list(frame.n) == [0, 1, 2]; import pandas",
}
_CHECK = """
assert pa.array(pandas.Series([1.0, None])).null_count == 1
rows = pa.Table.from_pandas(pandas.DataFrame({"kind": pandas.Categorical(["x", "y"])}))
assert rows.to_pandas().kind.dtype == "category"
db.append("t", pandas.DataFrame({"city": ["Rome", None], "n": [7, 8]}))
assert db.sql("SELECT SUM(n) FROM t").rows() == [(18.0,)]
db.close()
"""


def test_pandas_is_imported_only_by_those_who_use_it(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", _BEFORE.format(folder=str(tmp_path / who)) + code + _CHECK])
        for who, code in _AFTER.items()
    ]
    assert [process.wait(PATIENCE_S) for process in started] == [0, 0]
