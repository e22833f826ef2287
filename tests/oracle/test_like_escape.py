"""`LIKE … ESCAPE` against DuckDB, with several escape characters in queries of one shape."""

import random
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import QueryError
from gamay.embedded import Database

ALPHABET = "aB%_!\\$"


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = random.Random(5)
    texts = ["".join(rng.choices(ALPHABET, k=rng.randrange(5))) for _ in range(400)]
    return pa.table({"a": texts, "n": list(range(400))})


@pytest.fixture(scope="module")
def db(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("like") / "data", threads=1) as made:
        made.create_table("t", rows)
        made.create_table("raw", rows, config={"tableIndexConfig": {"noDictionaryColumns": ["a"]}})
        yield made


def patterns(seed: int) -> tuple[str, str]:
    """Return a pattern with valid escapes only, and the escape character."""
    rng = random.Random(seed)
    escape = rng.choice("!$x")
    parts = rng.choices(
        [*ALPHABET.replace(escape, ""), f"{escape}%", f"{escape}_", escape * 2, "%", "%"], k=rng.randrange(6)
    )
    return "".join(parts), escape


@pytest.mark.parametrize("table", ["t", "raw"])
@pytest.mark.parametrize("word", ["LIKE", "NOT LIKE"])
def test_patterns(db: Database, rows: pa.Table, table: str, word: str) -> None:
    oracle = duckdb.connect()
    oracle.register("t", rows)
    for seed in range(60):
        pattern, escape = patterns(seed)
        tail = f"{word} '{pattern}' ESCAPE '{escape}' AND n >= {seed} ORDER BY n"
        found = db.sql(f"SELECT n FROM {table} WHERE a {tail} LIMIT 1000").rows()
        expected = oracle.execute(f"SELECT n FROM t WHERE a {tail.replace('LIKE', 'ILIKE')}").fetchall()
        assert found == expected, tail


def test_a_backslash_is_what_escapes_without_it(db: Database) -> None:
    plain = db.sql(r"SELECT n FROM t WHERE a LIKE '%\_%' ORDER BY n LIMIT 1000").rows()
    assert 0 < len(plain) < 400
    assert db.sql(r"SELECT n FROM t WHERE a LIKE '%\_%' ESCAPE '\' ORDER BY n LIMIT 1000").rows() == plain
    assert db.sql("SELECT n FROM t WHERE a LIKE '%!_%' ESCAPE '!' ORDER BY n LIMIT 1000").rows() == plain
    assert db.sql("SELECT count(*) FROM t WHERE CASE WHEN a LIKE '%!_%' ESCAPE '!' THEN 1 ELSE 0 END = 1").rows() == [
        (len(plain),)
    ]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("a LIKE 'x' ESCAPE '!!'", "ESCAPE takes one character, not '!!'"),
        ("a LIKE '5!x' ESCAPE '!'", "may escape %, _ and itself only"),
        ("a LIKE '5!' ESCAPE '!'", "may escape %, _ and itself only"),
        ("a = 'b' ESCAPE '!'", "unexpected `ESCAPE`"),
    ],
)
def test_mistakes(db: Database, condition: str, words: str) -> None:
    with pytest.raises(QueryError) as raised:
        db.sql(f"SELECT a FROM t WHERE {condition}")
    assert words in str(raised.value)
