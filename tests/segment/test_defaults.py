"""Columns that were added to the schema after a segment was built."""

import dataclasses

import numpy as np
import pytest

from gamay.model.types import DataType, FieldRole
from gamay.segment.read.defaults import with_defaults
from gamay.segment.spi import SORTED


@pytest.fixture(scope="module")
def old(kit):
    return kit.open(kit.schema(kit.field("i", DataType.INT)), kit.config(), {"i": [5, 4, 3, 2, 1]})


def newer(kit, segment, *fields, **config):
    return with_defaults(segment, kit.schema(kit.field("i", DataType.INT), *fields), kit.config(**config))


def test_a_segment_that_lacks_nothing_is_returned_as_it_is(kit, old):
    assert newer(kit, old) is old


@pytest.mark.parametrize("single_value", [True, False], ids=["single", "multi"])
def test_every_type_reads_as_a_segment_built_of_nulls(kit, single_value):
    """The constant column and a column built from nulls are indistinguishable."""
    types = [t for t in kit.STORED_TYPES if single_value or t is not DataType.JSON]
    fields = [kit.field(t.value, t, single_value) for t in types]
    schema = kit.schema(*fields)
    built = kit.open(schema, kit.config(), {spec.name: [None] * 5 for spec in fields})
    one = kit.field("one", DataType.INT)
    bare = with_defaults(kit.open(kit.schema(one), kit.config(), {"one": [1] * 5}), kit.schema(one, *fields), kit.config())
    assert bare.column_names == ("one", *built.column_names)
    docs = np.array([1, 4], np.int32)
    for spec in fields:
        added, twin = bare.column(spec.name), built.column(spec.name)
        assert added.stats == twin.stats
        assert list(added.null_docs) == list(twin.null_docs) == [0, 1, 2, 3, 4]
        assert kit.plain(added.dictionary.values) == kit.plain(twin.dictionary.values)
        for read in (
            lambda c: c.values(0, 5),
            lambda c: c.values(1, 3),
            lambda c: c.values(2, 2),
            lambda c: c.values_at(docs),
        ):
            assert kit.plain(read(added)) == kit.plain(read(twin))
            assert type(read(added).values) is type(read(twin).values)
        assert np.array_equal(added.ids(1, 4), twin.ids(1, 4))
        assert added.ids(1, 4).dtype == twin.ids(1, 4).dtype
        if single_value:
            assert np.array_equal(added.ids_at(docs), twin.ids_at(docs))
            assert added.index(SORTED).starts.tolist() == twin.index(SORTED).starts.tolist() == [0, 5]
        else:
            assert added.offsets(1, 4).tolist() == twin.offsets(1, 4).tolist() == [0, 1, 2, 3]
            assert added.index(SORTED) is None


def test_the_schema_names_the_value_and_the_table_whether_it_is_null(kit, old):
    field = kit.field("m", DataType.LONG, role=FieldRole.METRIC, default_null_value=7)
    column = newer(kit, old, field, null_handling=False).column("m")
    assert kit.plain(column.values(0, 2)) == [7, 7]
    assert column.null_docs is None
    assert column.stats.total == 35
    assert kit.plain(newer(kit, old, field).column("i").values(0, 5)) == [5, 4, 3, 2, 1]
    with pytest.raises(KeyError):
        newer(kit, old, field).column("other")


def test_an_empty_segment(kit):
    empty = kit.open(kit.schema(kit.field("i", DataType.INT)), kit.config(), {"i": []})
    column = newer(kit, empty, kit.field("s", DataType.STRING)).column("s")
    built = kit.open(kit.schema(kit.field("s", DataType.STRING)), kit.config(), {"s": []}).column("s")
    assert column.stats == dataclasses.replace(built.stats)
    assert kit.plain(column.values(0, 0)) == []
    assert column.index(SORTED).starts.tolist() == built.index(SORTED).starts.tolist() == [0]
    assert column.null_docs is None
