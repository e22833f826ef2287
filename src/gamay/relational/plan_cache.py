"""Plans of statements that were asked before, with the same literals, of tables that are as they were.

Binding and optimizing take as long as a join of small tables does, and dashboards ask the same again and again.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from gamay.base.recently_used import RecentlyUsed
from gamay.functions.expression import Call, Expression
from gamay.functions.registry import ValueType
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.relational.names import Catalog, Frame
from gamay.relational.plan import Plan

# Of the plans that are kept, each as heavy as its text is long, and more.
_WEIGHT_MAX = 1 << 18
_WEIGHT_LEAST = 1000
# of a longer one, parts of the plan may be as long
_TEXT_MAX = 1 << 14
# what may be a constant of the moment, as names of functions are compared: without underscores
_OF_THE_MOMENT = re.compile("now|ago|current|local")


class PlanCache:
    """The plans that were made last; may be used from any thread."""

    def __init__(self) -> None:
        self._plans: RecentlyUsed[Hashable, tuple[Plan, _Recorder]] = RecentlyUsed(_WEIGHT_MAX)

    def plan(self, text: str, key: Hashable, catalog: Catalog, make: Callable[[Catalog], Plan]) -> Plan:
        """Return what `make` returns, or returned for the same key and a catalog that says the same. Raises QueryError.

        key: all that the plan depends on beside the catalog; text: of the statement.
        """
        if len(text) > _TEXT_MAX or _OF_THE_MOMENT.search(text.lower().replace("_", "")):
            return make(catalog)
        known = self._plans.get(key)
        if known is not None and known[1].agrees(catalog):
            return _own(known[0])
        recorder = _Recorder(catalog)
        plan = make(recorder)
        if recorder.forget():
            self._plans.put(key, (_own(plan), recorder), _WEIGHT_LEAST + len(text))
        return plan


def _own(plan: Plan) -> Plan:
    """Return a plan that rules may add types to."""
    return replace(plan, types=dict(plan.types))


class _Recorder:
    """Catalog that remembers what it was asked of tables, and what it answered."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog: Catalog | None = catalog
        self._repeats = True
        self._columns: dict[str, Mapping[str, ValueType]] = {}
        self._map_values: dict[str, Mapping[str, DataType]] = {}
        self._no_frames: set[str] = set()

    def forget(self) -> bool:
        """Let go of the catalog, which is that of a query; returns whether another one can be compared with the answers."""
        self._catalog = None
        return self._repeats

    def agrees(self, catalog: Catalog) -> bool:
        """Whether another catalog gives the same answers. Raises QueryError where a table is not there any more."""
        return (
            all(catalog.frame(name) is None for name in self._no_frames)
            and all(catalog.columns(name) == columns for name, columns in self._columns.items())
            and all(catalog.map_values(name) == types for name, types in self._map_values.items())
        )

    @property
    def _asked(self) -> Catalog:
        assert self._catalog is not None
        return self._catalog

    def columns(self, table: str) -> Mapping[str, ValueType]:
        self._columns[table] = found = self._asked.columns(table)
        return found

    def map_values(self, table: str) -> Mapping[str, DataType]:
        self._map_values[table] = found = self._asked.map_values(table)
        return found

    def frame(self, name: str) -> Frame | None:
        found = self._asked.frame(name)
        if found is None:
            self._no_frames.add(name)
        self._repeats = self._repeats and found is None
        return found

    def schemas(self) -> Mapping[str, Schema]:
        self._repeats = False
        return self._asked.schemas()

    def size(self, table: str) -> int:
        self._repeats = False
        return self._asked.size(table)

    def answer(self, call: Call) -> Expression:
        self._repeats = False
        return self._asked.answer(call)
