"""Cache of the plans of statements, perhaps with other constants, over unchanged tables.

Binding and optimizing take as long as a join of small tables, and dashboards repeat their statements.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gamay.base.recently_used import RecentlyUsed
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import ValueType
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.relational.names import Catalog, Frame
from gamay.relational.parameters import Parameters
from gamay.relational.plan import Plan
from gamay.relational.plans.form import PlanForm
from gamay.sql.relational import RelationalStatement

Make: TypeAlias = Callable[[Catalog, tuple[Literal, ...]], Plan]
"""Plans a statement with these constants; raises QueryError."""

# weight of a plan: the length of its text, and at least `_WEIGHT_LEAST`
_WEIGHT_MAX = 1 << 18
_WEIGHT_LEAST = 1000
# longer statements are not cached, since parts of their plans may be as long
_TEXT_MAX = 1 << 14
# per statement that differs in constants only
_PLANS_MAX = 16
# functions that may return the current time, as compared: without underscores
_OF_THE_MOMENT = re.compile("now|ago|current|local")
# fraction of a table's size by which it may change before plans for it are discarded
_SIZE_STEPS = 8


class PlanCache:
    """The most recently used plans; thread-safe."""

    def __init__(self) -> None:
        self._plans: RecentlyUsed[Hashable, tuple[_Known, ...]] = RecentlyUsed(_WEIGHT_MAX)

    def plan(self, statement: RelationalStatement, key: Hashable, catalog: Catalog, make: Make) -> Plan:
        """Return a cached plan for a statement like this and an equivalent catalog, or the result of `make`.

        key: everything that the plan depends on besides the constants and the catalog. Raises QueryError.
        """
        text = statement.text
        if len(text) > _TEXT_MAX or _OF_THE_MOMENT.search(text.lower().replace("_", "")):
            return make(catalog, statement.literals)
        parameters = Parameters(statement.literals)
        values = parameters.values
        key = key, parameters.pattern, tuple([each.type for each in values])
        known = self._plans.get(key) or ()
        for each in known:
            if all(values[number] == value for number, value in each.depends_on) and each.recorder.agrees(catalog):
                plan = each.form.filled(values)
                if plan is not None:
                    return plan
        recorder = _Recorder(catalog)
        plan = make(recorder, parameters.constants())
        depends_on = tuple((number, values[number]) for number in sorted(parameters.looked_at))
        try:
            form = PlanForm(plan, parameters)
        except RecursionError:
            return make(catalog, statement.literals)
        if recorder.forget():
            others = [each for each in known if each.depends_on != depends_on]
            kept = (_Known(form, recorder, depends_on), *others)[:_PLANS_MAX]
            self._plans.put(key, kept, len(kept) * (_WEIGHT_LEAST + len(text)))
        own = form.filled(values)
        assert own is not None
        return own


@dataclass(frozen=True, slots=True)
class _Known:
    """A cached plan. depends_on: the constants that it is valid for, by number; the others may have any value."""

    form: PlanForm
    recorder: "_Recorder"
    depends_on: tuple[tuple[int, Literal], ...]


class _Recorder:
    """Catalog that records the queries it answers about tables, and its answers."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog: Catalog | None = catalog
        self._repeats = True
        self._columns: dict[str, Mapping[str, ValueType]] = {}
        self._map_values: dict[str, Mapping[str, DataType]] = {}
        self._sizes: dict[str, int] = {}
        self._no_frames: set[str] = set()

    def forget(self) -> bool:
        """Release the catalog, which belongs to a query; return whether the recorded answers can be compared with another
        one."""
        self._catalog = None
        return self._repeats

    def agrees(self, catalog: Catalog) -> bool:
        """Whether another catalog gives the same answers. Raises QueryError if a table no longer exists."""
        return (
            all(catalog.frame(name) is None for name in self._no_frames)
            and all(catalog.columns(name) == columns for name, columns in self._columns.items())
            and all(catalog.map_values(name) == types for name, types in self._map_values.items())
            and all(abs(catalog.size(name) - size) <= size // _SIZE_STEPS for name, size in self._sizes.items())
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
        self._sizes[table] = found = self._asked.size(table)
        return found

    def answer(self, call: Call) -> Expression:
        self._repeats = False
        return self._asked.answer(call)
