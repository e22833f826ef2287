"""Any content of a document gives a config or an error message, never a crash; examples in docstrings are correct."""

import contextlib
import copy
import doctest
import json
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.model import parse, units, zones
from gamay.model.index import column_index
from gamay.model.rules.validation import validate_schema, validate_table_config
from gamay.model.schema import default_null, joda, schema
from gamay.model.schema.datetime_format import DateTimeFormat, Granularity
from gamay.model.schema.joda import JodaPattern
from gamay.model.schema.schema import Schema
from gamay.model.table import table_name
from gamay.model.table.table_config import TableConfig

ODD_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(
        ["0", "-1", "1e400", "5.0", "ENABLE", "yyyy", "1:DAYS:EPOCH", "10d", "1M", "x__y", "Murmur", "é", "\x00", "'"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with each of its keys or positions."""
    for step in document if isinstance(document, dict) else range(len(document)):
        yield document, step
        if isinstance(document[step], dict | list):
            yield from places(document[step])


def damage(document: Any, seed: int, value: Any) -> Any:
    damaged = copy.deepcopy(document)
    container, step = random.Random(seed).choice(list(places(damaged)))
    container[step] = value
    return damaged


@FIXTURE
@given(seed=st.integers(0, 2**32), value=ODD_VALUES)
def test_a_damaged_table_config(every_table_key: Any, every_schema_key: Any, seed: int, value: Any) -> None:
    sound = Schema.from_json(every_schema_key).value
    try:
        config = TableConfig.from_json(damage(every_table_key, seed, value)).value
    except InvalidConfigError:
        return
    assert TableConfig.from_json(json.loads(json.dumps(config.to_json()))).value == config
    for column in sound.stored_fields:
        assert config.null_handling(sound, column.name) in (True, False)
    with pytest.raises(InvalidConfigError):  # a config with every key contradicts itself in any case
        validate_table_config(config, sound)


@FIXTURE
@given(seed=st.integers(0, 2**32), value=ODD_VALUES)
def test_a_damaged_schema(every_schema_key: Any, seed: int, value: Any) -> None:
    try:
        read = Schema.from_json(damage(every_schema_key, seed, value)).value
        assert Schema.from_json(json.loads(json.dumps(read.to_json()))).value == read
        validate_schema(read)
    except InvalidConfigError:
        return


@given(ODD_VALUES)
def test_any_json_at_all(document: Any) -> None:
    for reader in (Schema.from_json, TableConfig.from_json):
        with pytest.raises(InvalidConfigError):
            reader(document)


@given(
    st.text(alphabet="yYMdDEeHhkKmsSazZwxQT'-/: .,|0Bé", max_size=12),
    st.text(alphabet="0123456789-/: .,APMUTCJanZé'+", max_size=20),
)
def test_any_pattern_reads_or_refuses_any_text(pattern: str, text: str) -> None:
    try:
        compiled = JodaPattern(pattern)
    except InvalidConfigError:
        return
    compiled.print(1_700_000_000_000)
    with contextlib.suppress(ValueError):
        compiled.parse(text)


@given(
    st.text(alphabet="0123456789:|EPOCHDAYSMILTRFyd_- tz()", max_size=30)
    | st.from_regex(r"\d:(DAYS|X):(EPOCH|TIMESTAMP|SIMPLE_DATE_FORMAT)(:.{0,9})?")
)
def test_any_format_text_reads_or_is_refused(text: str) -> None:
    for reader in (DateTimeFormat.parse, Granularity.parse):
        with contextlib.suppress(InvalidConfigError):
            reader(text)


@pytest.mark.parametrize("module", [column_index, default_null, joda, parse, schema, table_name, units, zones])
def test_examples_in_docstrings(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
