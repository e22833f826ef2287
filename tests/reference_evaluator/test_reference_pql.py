"""Random PQL against the row-by-row evaluator: each aggregate has separate groups, ordered by descending value."""

import math
import random
import re
from typing import Any

import pytest
from tests.reference_evaluator import functions as f
from tests.reference_evaluator.comparison import compare_rows
from tests.reference_evaluator.conftest import Engine
from tests.reference_evaluator.generator import Generator
from tests.reference_evaluator.tables import TABLES, VARIANTS, Table
from tests.reference_evaluator.tree import Aggregate, Node, Order, Row, Statement, by_text, junction, matches
from tests.seeds import by_first, chunks, count_of

from gamay.broker.http.legacy import to_legacy_json
from gamay.query.answer.response import BrokerResponse
from gamay.sql.pql.parser import parse_pql

QUERIES = count_of("GAMAY_GENERATED_QUERIES", 240) // 4
_OF_COLUMN = re.compile(r'(COUNT|SUM|MIN|MAX|AVG|MINMAXRANGE|DISTINCTCOUNT|PERCENTILE\d+)(MV)?\((\*|"\w+")\)')


class PqlGenerator(Generator):
    """Generator of PQL: conditions that compare columns with constants, aggregates of one column."""

    def pql_condition(self, depth: int = 2) -> Node:
        if depth and self.chance(0.5):
            parts = [self.pql_condition(depth - 1) for _ in range(2)]
            return junction(self.shape.choice(("AND", "OR")), parts)
        if self.chance(0.2):
            column = self.text_column()
            text = self.pick.choice(("^O", "o$", "[a-f]", "7.$", "zzz"))
            pattern = re.compile(text, re.IGNORECASE)
            return matches(f"regexp_like({column.sql}, '{text}')", column, lambda v: pattern.search(v) is not None)
        made = self.shape.choice((self._compare_number, self._compare_text, self._in, self._list_number, self._between))()
        return made if "NOT BETWEEN" not in made.sql else self._compare_text()

    def pql_aggregate(self) -> Aggregate:
        made = self.shape.choice((self._count, self._basic, self._basic, self._distinct, self._ordered, self._of_lists))()
        simple = re.fullmatch(
            r'(COUNT|SUM|MIN|MAX|AVG|MINMAXRANGE|DISTINCTCOUNT|PERCENTILE\d+)(MV)?\((\*|"\w+")\)', made.sql
        )
        return made if simple else self.pql_aggregate()

    def pql_keys(self) -> list[Node]:
        names = [name for name in self.roles.keys if self.table.types[name][0] in ("INT", "LONG", "STRING")]
        keys = [self.column(name) for name in self.shape.sample(names, self.shape.randrange(1, 3))]
        if self.chance(0.25):
            keys.append(self.column(self.shape.choice(self.roles.text_lists)))
        return keys


def to_pql(sql: str) -> str:
    """Return a text of SQL with its columns as PQL names them."""
    return re.sub(r'"(\w+)"', r"`\1`", sql)


def comparable_value(value: Any) -> Any:
    """Return a number of JSON, which has no infinities and no NaN."""
    return {"NaN": f.NAN, "Infinity": f.INFINITY, "-Infinity": -f.INFINITY}.get(value, value)


def check_pql(engine: Engine, table: Table, seed: int) -> None:
    generator = PqlGenerator(table, random.Random(f"pql {seed}"), random.Random(seed), False)
    keys = generator.pql_keys() if generator.chance(0.75) else []
    aggregates = [generator.pql_aggregate() for _ in range(generator.shape.randrange(1, 4))]
    where = generator.pql_condition() if generator.chance(0.8) else None
    top = generator.shape.choice((1, 3, 10, 1000))
    pql = f"SELECT {', '.join(one.sql for one in aggregates)} FROM {table.name}"
    pql += f" WHERE {where.sql}" if where is not None else ""
    pql += f" GROUP BY {', '.join(key.sql for key in keys)} TOP {top}" if keys else ""
    parsed = parse_pql(to_pql(pql) + " OPTION(preserveType=true)")
    for variant in random.Random(seed).sample(VARIANTS, 2):
        answer = engine.answer_query(table, parsed.query, variant)
        results = to_legacy_json(BrokerResponse(table=answer.table, stats=answer.stats), parsed)["aggregationResults"]
        assert len(results) == len(aggregates)
        for aggregate, result in zip(aggregates, results, strict=True):
            expected = _groups(table, keys, aggregate, where)
            if not keys:
                wrong = compare_rows([(comparable_value(result["value"]),)], [expected[0][0][1:]])
                assert not wrong, f"{pql}: {wrong} instead of {expected}"
                continue
            listed = [("\t".join(one["group"]), comparable_value(one["value"])) for one in result["groupByResult"]]
            assert len(listed) == min(top, sum(map(len, expected))), f"{pql}: {len(listed)} groups"
            start = 0
            for run in expected:
                wrong = compare_rows(listed[start : start + len(run)], run)
                assert not wrong, f"{variant}: {pql}: {wrong[:3]}, one of {run[:3]}"
                start += len(run)


def _groups(table: Table, keys: list[Node], aggregate: Aggregate, where: Node | None) -> list[list[tuple[Any, ...]]]:
    """Return (group, value) of all groups by falling value, in runs of equal ones."""
    value = Node(aggregate.sql, aggregate.type, by_text(aggregate.sql))

    def group(row: Row) -> str:
        return "\t".join(str(row[key.sql]) for key in keys)

    statement = Statement("group" if keys else "aggregation", [Node("group", "STRING", group), value], where, keys)
    statement.aggregates.append(aggregate)
    statement.order = [Order(value, True, None)]
    return _as_good_as_equal(statement.answer(table.filled).runs)


def _as_good_as_equal(runs: list[list[tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
    """Return runs with those made one whose doubles differ by what the order of addition may: either may come first."""
    joined: list[list[tuple[Any, ...]]] = []
    for run in runs:
        before, value = joined[-1][-1][-1] if joined else None, run[0][-1]
        if isinstance(before, float) and isinstance(value, float) and math.isclose(before, value, rel_tol=1e-13):
            joined[-1] += run
        else:
            joined.append(list(run))
    return joined


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("some", chunks(QUERIES // 2, 50), ids=by_first)
def test_generated_pql_agrees(engine: Engine, some: range, name: str) -> None:
    for seed in some:
        check_pql(engine, engine.table(name), seed)
