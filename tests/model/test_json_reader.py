"""The reader shared by all documents."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.model.parse import (
    COLUMNS,
    EMPTY_MAP,
    FLAG,
    INTEGER,
    INTEGER_TEXT,
    NUMBER,
    REQUIRED,
    TEXT,
    TEXT_MAP,
    VERBATIM,
    choice,
    key,
    list_of,
    load_json,
    map_of,
    read_document,
    section,
    write_section,
)


@dataclass(frozen=True)
class Inner:
    size: int = key("size", INTEGER, REQUIRED)
    kind: str = key("kind", choice("Big", "Small"), "Big")


@dataclass(frozen=True)
class Outer:
    name: str = key("name", TEXT, REQUIRED)
    on: bool = key("on", FLAG, False, aliases=["enabled"])
    copies: int | None = key("copies", INTEGER_TEXT)
    ratio: float = key("ratio", NUMBER, 0.5)
    columns: tuple[str, ...] = key("columns", COLUMNS, ())
    inner: Inner | None = key("inner", section(Inner))
    many: tuple[Inner, ...] = key("many", list_of(section(Inner)), ())
    by_name: Mapping[str, Inner] = key("by/name", map_of(section(Inner)), EMPTY_MAP)
    texts: Mapping[str, str] = key("texts", TEXT_MAP, EMPTY_MAP)
    anything: Any = key("anything", VERBATIM)


def problems(document: Any) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        read_document(Outer, document, "the thing")
    return str(caught.value)


def test_values_are_converted_as_other_readers_do() -> None:
    document = {
        "name": 5,
        "on": "TRUE",
        "copies": "3",
        "ratio": "1e-1",
        "columns": ["a", "", "b"],
        "texts": {"a": 1, "b": True},
    }
    value = read_document(Outer, document, "the thing").value
    assert value == Outer("5", True, 3, 0.1, ("a", "b"), texts={"a": "1", "b": "true"})
    assert write_section(value) == {
        "name": "5", "on": True, "copies": "3", "ratio": 0.1, "columns": ["a", "b"], "texts": {"a": "1", "b": "true"},
    }  # fmt: skip


def test_absent_null_and_empty_say_the_same() -> None:
    document = {"name": "a", "on": None, "columns": [], "inner": None, "many": None, "texts": {}}
    value = read_document(Outer, document, "the thing").value
    assert value == Outer("a")
    assert write_section(value) == {"name": "a", "on": False, "ratio": 0.5}


def test_an_older_name_is_read_and_the_newer_written() -> None:
    assert write_section(read_document(Outer, {"name": "a", "enabled": True}, "x").value)["on"] is True
    assert "two spellings" in problems({"name": "a", "enabled": True, "on": False})
    assert read_document(Outer, {"name": "a", "enabled": True, "on": True}, "x").value.on


def test_every_problem_is_named_with_its_place() -> None:
    text = problems(
        {
            "on": 1,
            "copies": 1.5,
            "columns": "a",
            "inner": {"size": "big", "kind": "smal"},
            "many": [{"size": 1}, 7, {}],
            "by/name": {"a~b": {"size": None}},
        }
    )
    assert text.startswith("the thing has 9 problems:")
    for line in (
        "the key 'name' is missing",
        "/on: 1 is not true or false",
        "/copies: 1.5 is not a whole number",
        '/columns: "a" is not a list',
        '/inner/size: "big" is not a whole number',
        "/inner/kind: \"smal\" is not one of Big, Small. Did you mean 'Small'?",
        "/many/1: 7 is not an object",
        "/many/2: the key 'size' is missing",
        "/by~1name/a~0b: the key 'size' is missing",
    ):
        assert f"\n- {line}" in text


def test_unknown_keys_are_reported_by_pointer_with_the_nearest_known_key() -> None:
    document = {"name": "a", "colums": ["x"], "many": [{"size": 1, "zzz": None}], "by/name": {"~": {"size": 1, "Kind": 2}}}
    parsed = read_document(Outer, document, "the thing")
    assert parsed.unrecognized == {"/colums": ["x"], "/many/0/zzz": None, "/by~1name/~0/Kind": 2}
    assert parsed.suggestions == {"/colums": "columns", "/by~1name/~0/Kind": "kind"}


@pytest.mark.parametrize("document", [None, [], "x", 5])
def test_a_document_must_be_an_object(document: Any) -> None:
    assert "is not an object" in problems(document)


@pytest.mark.parametrize("number", ["1_000", "٣", "0x10", " ", "1 2", True, [], "nan", "inf"])
def test_what_is_no_number_is_refused(number: Any) -> None:
    assert "is not a whole number" in problems({"name": "a", "copies": number})
    if number != "":
        assert "is not a number" in problems({"name": "a", "ratio": number})


def test_long_values_are_cut_in_messages() -> None:
    assert len(problems({"name": ["x" * 1000]})) < 200


def test_json_text() -> None:
    assert load_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    for text, reason in (
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' twice"),
        ('{"a": 1,}', "line 1, column"),
        ("", "line 1, column 1"),
        ('{"a": NaN}', "contains NaN"),
        (b'{"a": "\xff"}', "not UTF-8"),
    ):
        with pytest.raises(InvalidConfigError) as caught:
            load_json(text, "schema")
        assert reason in str(caught.value)
        assert "the schema" in str(caught.value)


def test_what_is_written_is_plain_json() -> None:
    document = {
        "name": "a",
        "inner": {"size": 3},
        "many": [{"size": 1, "kind": "small"}],
        "by/name": {"k": {"size": 2}},
        "anything": [1],
    }
    written = write_section(read_document(Outer, document, "the thing").value)
    assert json.loads(json.dumps(written)) == written
    assert written["many"] == [{"size": 1, "kind": "Small"}]
