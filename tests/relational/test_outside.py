"""What the engine of joins cannot access, whatever the statement."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gamay.base.errors import QueryError
from gamay.query.limits.spill_files import SpillSpace
from gamay.relational.engine import Engine


class NoDeadline:
    """A deadline that never expires."""

    def check(self) -> None:
        """Let the query go on."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(1, SpillSpace(tmp_path / "spill"))
    yield made
    made.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')",
        "COPY (SELECT 1) TO '{folder}/written.csv'",
        "ATTACH '{folder}/written.db' AS x",
        "EXPORT DATABASE '{folder}/written'",
        "INSTALL httpfs",
        "LOAD '{folder}/x.duckdb_extension'",
        "SET enable_external_access = true",
        "SET temp_directory = '{folder}'",
        "SET allowed_directories = ['{folder}']",
        "SET allow_unsigned_extensions = true",
        "SELECT * FROM no_such_variable_of_python",
    ],
)
def test_nothing_outside_is_read_written_or_loaded(engine: Engine, tmp_path: Path, statement: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,pw-of-admin\n")
    no_such_variable_of_python = {"a": [1]}
    assert no_such_variable_of_python
    with pytest.raises(QueryError) as caught:
        engine.run(statement.format(file=file, folder=tmp_path), {}, [], 1 << 26, NoDeadline())
    assert "pw-of-admin" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir() if path.name != "spill"] == ["secret.csv"]
