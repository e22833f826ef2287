"""The SQL cases in the `.test` files beside this module: what a query compiles to, or the error it causes.

A case is `query` or `error`, the SQL, a line `----`, and what comes out, up to a blank line. `GAMAY_UPDATE=1` rewrites what
comes out; review the difference.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from gamay.base.errors import QueryError
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.text import literal_text
from gamay.model.types import DataType
from gamay.sql.parser import PlanCache, parse_query
from gamay.sql.query import Query

HERE = Path(__file__).parent


@dataclass
class Case:
    file: Path
    line: int
    kind: str
    sql: str
    expected: str


def read_cases(file: Path) -> list[Case]:
    cases = []
    lines = file.read_text().splitlines()
    i = 0
    while i < len(lines):
        if lines[i] not in ("query", "error"):
            assert not lines[i] or lines[i].startswith("#"), f"{file.name}:{i + 1}: neither a case nor a comment"
            i += 1
            continue
        rule = lines.index("----", i)
        end = next((j for j in range(rule, len(lines)) if not lines[j]), len(lines))
        cases.append(Case(file, i + 1, lines[i], "\n".join(lines[i + 1 : rule]), "\n".join(lines[rule + 1 : end])))
        i = end
    return cases


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
        # a blank line ends a case, so the place of an empty line is shown by a bar
        return "error", "\n".join(line.rstrip() or "|" for line in f"{error.code.code} {error}".splitlines())
    assert parse_query(case.sql, plans=plans) == first, "the plan from the cache differs"
    return "query", show(first)


def update(file: Path) -> None:
    text = file.read_text().splitlines()
    for case in reversed(read_cases(file)):
        kind, shown = outcome(case)
        rule = text.index("----", case.line - 1)
        end = next((j for j in range(rule, len(text)) if not text[j]), len(text))
        text[rule + 1 : end] = shown.splitlines()
        text[case.line - 1] = kind
    file.write_text("\n".join(text).rstrip("\n") + "\n")


FILES = sorted(HERE.glob("*.test"))
if os.environ.get("GAMAY_UPDATE"):
    for _file in FILES:
        update(_file)
CASES = [case for file in FILES for case in read_cases(file)]


@pytest.mark.parametrize("case", CASES, ids=[f"{c.file.stem}:{c.line}" for c in CASES])
def test_case(case: Case) -> None:
    assert outcome(case) == (case.kind, case.expected), f"{case.file}:{case.line}"
