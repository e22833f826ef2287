"""SQL and its compiled form, or the error it causes: the `.test` files beside this module (`tests.sql.cases`)."""

from pathlib import Path

import pytest
from tests.sql.cases import Case, one_block, read_cases, update

from gamay.base.errors import QueryError
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.text import literal_text
from gamay.model.types import DataType
from gamay.sql.parser import PlanCache, parse_query
from gamay.sql.query import Query

KINDS = ("query", "error")


def tree(expression: Expression) -> str:
    if isinstance(expression, Column):
        return f'"{expression.name}"' if not expression.name.isidentifier() else expression.name
    if isinstance(expression, Literal):
        text = literal_text(expression.value)
        return {DataType.STRING: f"'{text}'", DataType.LONG: f"{text}L"}.get(expression.type, text)
    if isinstance(expression, Call):
        return f"{expression.name}({', '.join(map(tree, expression.args))})"
    return "*"


def show(query: Query) -> str:
    lines = ["explain"] if query.explain else []
    if query.relational is not None:
        literals = ", ".join(tree(literal) for literal in query.relational.literals)
        lines.append(f"relational {query.relational.tree.sql()}")
        return "\n".join([*lines, f"literals {literals}"] if literals else lines)
    lines += [f"from {query.table}"] if query.table else []
    word = "select distinct" if query.distinct else "select"
    lines += [f"{word} {tree(item.expression)}  ->  {item.name}" for item in query.select]
    lines += [f"where {tree(query.where)}"] if query.where is not None else []
    lines += [f"group by {tree(key)}" for key in query.group_by]
    if query.grouping_sets:
        sets = [f"({', '.join(tree(query.group_by[i]) for i in keys)})" for keys in query.grouping_sets]
        lines.append(f"grouping sets {', '.join(sets)}")
    lines += [f"having {tree(query.having)}"] if query.having is not None else []
    for key in query.order_by:
        nulls = {None: "", True: " nulls last", False: " nulls first"}[key.nulls_last]
        lines.append(f"order by {tree(key.expression)}{' desc' if key.descending else ''}{nulls}")
    if query.limit != 10 or query.offset:
        lines.append(f"limit {query.limit} offset {query.offset}")
    lines += [f"option {name}={value}" for name, value in query.options.items()]
    return "\n".join(lines)


def outcome(case: Case) -> tuple[str, str]:
    plans = PlanCache()
    try:
        first = parse_query(case.sql, plans=plans)
    except QueryError as error:
        return "error", one_block(f"{error.code.code} {error}")
    assert parse_query(case.sql, plans=plans) == first, "the plan from the cache differs"
    return "query", show(first)


FILES = sorted(Path(__file__).parent.glob("*.test"))
CASES = [case for file in FILES for case in read_cases(file, KINDS)]


@pytest.fixture(scope="module", autouse=True)
def _updated(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("update"):
        for file in FILES:
            update(file, KINDS, outcome)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("update"):
        assert outcome(case) == (case.kind, case.expected), f"{case.file}:{case.line}"
