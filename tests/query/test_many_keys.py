"""Binding a query with very many keys takes time linear in their number."""

import pytest
from tests.query.many_groups import SCHEMA

from gamay.functions.expression import Call
from gamay.query.bind.binder import bind
from gamay.sql.parser import parse_query

KEYS = 1_000


def test_keys_are_looked_up_and_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    equal = Call.__eq__

    def counted(self: Call, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equal(self, other)

    listed = ", ".join(f"k + {i}" for i in range(KEYS))
    query = parse_query(f"SELECT {listed}, COUNT(*) FROM many GROUP BY {listed} ORDER BY {listed}")
    monkeypatch.setattr(Call, "__eq__", counted)
    bound = bind(query, SCHEMA)
    assert len(bound.rows) == KEYS
    assert compared < 100 * KEYS
