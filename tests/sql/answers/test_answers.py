"""The answers of each kind of query on small tables, in every form of storage: the `.test` files beside this module.

Kinds of cases are `query`, whose rows come in one order, `query in any order`, and `error`. What comes out are the names
and types of the columns, then a row a line, as JSON; numbers may differ in their thirteenth digit. Queries of several
tables, or of none, go to the form `database` alone. `tests.sql.answers.forms` says what a table is; `--update` asks the
form `sealed`.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.sql.answers.forms import DATABASE, FORMS, TABLES, Ask, opened
from tests.sql.cases import Case, one_block, read_cases, update

from gamay.base.errors import QueryError
from gamay.query.answer.response import BrokerResponse, to_json
from gamay.sql.parser import parse_query

ANY_ORDER = "query in any order"
KINDS = ("query", ANY_ORDER, "error")
FILES = sorted(Path(__file__).parent.glob("*.test"))
NAMES = sorted(file.stem for file in TABLES.glob("*.json"))
_DIGITS = 1e-12


class Forms:
    """The tables in all forms, each created at its first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asks: dict[str, Ask] = {}
        self.stack = ExitStack()

    def ask(self, form: str, sql: str) -> BrokerResponse:
        """Answer a query of tables in a form."""
        if form not in self._asks:
            (self._folder / form).mkdir()
            self._asks[form] = self.stack.enter_context(opened(form, NAMES, self._folder / form))
        return self._asks[form](sql)


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forms]:
    made = Forms(tmp_path_factory.mktemp("forms"))
    with made.stack:
        yield made


def outcome(case: Case, response: BrokerResponse) -> tuple[str, list[str]]:
    """Return the kind of a case, and the lines of its output."""
    if response.exceptions:
        code, message = response.exceptions[0]
        return "error", one_block(f"{code} {message}").splitlines()
    table: dict[str, Any] = orjson.loads(orjson.dumps(to_json(response)["resultTable"]))
    schema = table["dataSchema"]
    columns = [f"{name} {kind}" for name, kind in zip(schema["columnNames"], schema["columnDataTypes"], strict=True)]
    rows = [orjson.dumps(row).decode() for row in table["rows"]]
    is_sorted = case.kind != ANY_ORDER
    return ("query" if is_sorted else ANY_ORDER), [", ".join(columns), *(rows if is_sorted else sorted(rows))]


def is_same(found: Any, expected: Any) -> bool:
    """Whether two values are the same, but for the last digits of numbers."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_same, found, expected))
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=_DIGITS)
    return type(found) is type(expected) and bool(found == expected)


def needs_broker(sql: str) -> bool:
    try:
        query = parse_query(sql)
    except QueryError:
        return False
    return query.table is None or query.asks_broker


CASES = [case for file in FILES for case in read_cases(file, KINDS)]


def test_update(request: pytest.FixtureRequest, forms: Forms) -> None:
    if not request.config.getoption("update"):
        pytest.skip("the cases are written anew with --update alone")

    def written(case: Case) -> tuple[str, str]:
        kind, lines = outcome(case, forms.ask(DATABASE if needs_broker(case.sql) else "sealed", case.sql))
        return kind, "\n".join(lines)

    for file in FILES:
        update(file, KINDS, written)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case, form: str, forms: Forms, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("update") or (form != DATABASE and needs_broker(case.sql)):
        return
    times = 2 if form == DATABASE else 1  # the second one of a shape may take the fast path
    for _ in range(times):
        kind, found = outcome(case, forms.ask(form, case.sql))
        expected = case.expected.splitlines()
        assert kind == case.kind, f"{case.file}:{case.line}: {found}"
        if kind == "error":
            assert found == expected, f"{case.file}:{case.line}"
            continue
        assert found[0] == expected[0], f"{case.file}:{case.line}"
        rows, wanted = [[orjson.loads(line) for line in lines[1:]] for lines in (found, expected)]
        assert is_same(rows, wanted), f"{case.file}:{case.line}: {found[1:]}"
