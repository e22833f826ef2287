"""Record purgers and modifiers of users' packages.

A *factory* is called with the typed name of a table and the subtask's config, and returns None if it does not apply to
the table. Factories are entry points of the groups below, or named in a minion's file as `package.module:function`.
Spark's executors load them as well, so their packages must be installed there, too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from gamay.storage.settings import load_object

if TYPE_CHECKING:
    import pyarrow as pa  # a minion is light until its first subtask

PURGERS = "gamay.minion.record.purgers"
MODIFIERS = "gamay.minion.record.modifiers"
PURGER_GROUP = "gamay.record_purgers"
MODIFIER_GROUP = "gamay.record_modifiers"

RecordPurger = Callable[["pa.RecordBatch"], Any]
"""Takes rows, all columns of the schema; returns for each whether it is purged, as Arrow or NumPy booleans."""
RecordModifier = Callable[["pa.RecordBatch"], Mapping[str, Any]]
"""Takes the rows that are kept; returns the columns that change, by name, as Arrow or NumPy arrays of as many values."""


@dataclass(frozen=True, slots=True)
class PurgeFactories:
    """The factories that a minion's file names."""

    purgers: tuple[str, ...] = ()
    modifiers: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise InvalidConfigError for a name that cannot be loaded."""
        for key, names in ((PURGERS, self.purgers), (MODIFIERS, self.modifiers)):
            for name in names:
                load_object(key, name)

    def purgers_of(self, table: str, told: Mapping[str, str]) -> list[RecordPurger]:
        """Return the purgers of a table. Raises InvalidConfigError for a name that cannot be loaded."""
        return list(_made(PURGERS, self.purgers, PURGER_GROUP, table, told))

    def modifiers_of(self, table: str, told: Mapping[str, str]) -> list[RecordModifier]:
        """Return the modifiers of a table. Raises InvalidConfigError for a name that cannot be loaded."""
        return list(_made(MODIFIERS, self.modifiers, MODIFIER_GROUP, table, told))


NO_FACTORIES = PurgeFactories()
"""For a minion's file without factories; those of installed packages are used nevertheless."""


def _made(key: str, names: tuple[str, ...], group: str, table: str, told: Mapping[str, str]) -> Iterator[Any]:
    installed = sorted(entry_points(group=group), key=lambda entry: entry.name)
    for factory in [*(load_object(key, name) for name in names), *(entry.load() for entry in installed)]:
        made = factory(table, told)
        if made is not None:
            yield made
