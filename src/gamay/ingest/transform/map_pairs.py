"""Input maps stored in two multi-value columns, `X__KEYS` and `X__VALUES`: the older form of maps in tables."""

from collections.abc import Callable, Container

from gamay.ingest.convert.arrays import plain
from gamay.ingest.convert.maps import to_lists
from gamay.ingest.transform.rows import Failures, Rows, describe_value
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType

_KEYS, _VALUES = "__KEYS", "__VALUES"
_NOTHING: Container[str] = ()


class MapPairs:
    """The columns of a schema that are filled from maps: the keys in order, and the corresponding values.

    computed: columns that are filled otherwise. sources: the names of the maps.
    """

    def __init__(self, schema: Schema, computed: Container[str] = _NOTHING) -> None:
        lists = {f.name: f for f in schema.stored_fields if not f.single_value and f.name not in computed}
        names = {name.removesuffix(end) for end in (_KEYS, _VALUES) for name in lists if name.endswith(end)}
        other = {f.name for f in schema.stored_fields if f.data_type not in (DataType.MAP, DataType.JSON)}
        self.sources = tuple(sorted(names - other))
        self._lists = lists

    def fill(self, rows: Rows, failures: Failures) -> None:
        """Split input maps into those of their columns that the input lacks; other values than maps are failures."""
        for name in self.sources:
            keys, values = self._lists.get(name + _KEYS), self._lists.get(name + _VALUES)
            wanted = [spec for spec in (keys, values) if spec is not None and spec.name not in rows.columns]
            if name not in rows.columns or not wanted:
                continue
            listed = to_lists(plain(rows.columns[name]), DataType.STRING if values is None else values.data_type)
            for spec in wanted:
                rows.put(spec.name, listed[spec is values])
            if (failed := listed[2]) is not None:
                failures.add(rows, failed, _reason(name, wanted, rows))


def _reason(name: str, wanted: list[FieldSpec], rows: Rows) -> Callable[[int], str]:
    columns = "', '".join(spec.name for spec in wanted)
    return lambda row: f"column '{columns}': {describe_value(rows.columns, name, row)} of '{name}' is no map"
