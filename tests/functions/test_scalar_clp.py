"""clpDecode and clpMatch, against an encoder of single messages."""

import fnmatch
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gamay
from gamay.embedded import Database
from gamay.functions.scalar.text.clp import clp_match, decode
from gamay.functions.scalar.text.clp import encode as take_apart
from gamay.functions.scalar.values import lists_vector
from gamay.model.types import DataType

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,12})(\.[0-9]{1,3})?$")


def encode(parts: list[str]) -> tuple[str, list[str], list[int]]:
    """Take a message apart: words with digits are variables, the others the log type."""
    log_type, dictionary, encoded = "", list[str](), list[int]()
    for part in parts:
        number = _NUMBER.match(part)
        if part == "-0" or (number is None and any(c.isdigit() for c in part)):
            log_type += "\x12"
            dictionary.append(part)
        elif number is None:
            log_type += "".join("\\" + c if c in "\\\x11\x12\x13" else c for c in part)
        elif number[1] is None:
            log_type += "\x11"
            encoded.append(int(part))
        else:
            log_type += "\x13"
            digits = part.removeprefix("-").replace(".", "")
            encoded.append(
                int(digits) << 8
                | (len(digits) - 1) << 4
                | (len(number[1]) - 2)
                | (-(1 << 63) if part.startswith("-") else 0)
            )
    return log_type, dictionary, encoded


def test_messages_that_clp_itself_has_taken_apart() -> None:
    """By its library for Java, 0.4.7, whose log types keep backslashes as they are; there are none outside of variables."""
    lines = Path(__file__).with_name("clp_messages.jsonl").read_text("utf-8").splitlines()
    for known in map(json.loads, lines):
        assert take_apart(known["message"]) == (known["logtype"], known["dictionaryVars"], known["encodedVars"])
    assert len(lines) > 100


@given(st.lists(st.one_of(st.text("ab=12.-+_\\\x11\x12\x13 ü\n"), st.from_regex(r"-?[0-9]{1,20}\.?[0-9]{0,3}")), min_size=1))
def test_messages_are_whole_again(messages: list[str]) -> None:
    log_types, dictionary, encoded = zip(*map(take_apart, messages), strict=True)
    variables = lists_vector(list(dictionary), DataType.STRING), lists_vector(list(encoded), DataType.LONG)
    found, broken = decode(pa.array(log_types, pa.string()), *variables)
    assert found.to_pylist() == messages
    assert not broken.any()


_TEXT = st.text("ab\\*?\x11\x12\x13 ü\n.", max_size=5)
_NUMBERS = st.from_regex(_NUMBER, fullmatch=True)
_WORDS = st.from_regex(r"[a-c][0-9]{1,3}", fullmatch=True)
_MESSAGES = st.lists(st.lists(st.one_of(_TEXT, _NUMBERS, _WORDS), max_size=5), min_size=1, max_size=8)


def columns(messages: list[list[str]]) -> tuple[Any, Any, Any]:
    taken_apart = [encode(parts) for parts in messages]
    return (
        pa.array([log_type for log_type, _, _ in taken_apart], pa.string()),
        lists_vector([dictionary for _, dictionary, _ in taken_apart], DataType.STRING),
        lists_vector([encoded for _, _, encoded in taken_apart], DataType.LONG),
    )


@given(_MESSAGES)
def test_what_was_taken_apart_is_put_together(messages: list[list[str]]) -> None:
    decoded, broken = decode(*columns(messages))
    assert decoded.to_pylist() == ["".join(parts) for parts in messages]
    assert not broken.any()


@given(_MESSAGES, st.text("ab1*?.", max_size=4))
def test_wildcards_are_those_of_file_names(messages: list[list[str]], wildcard: str) -> None:
    expected = [fnmatch.fnmatchcase("".join(parts), wildcard) for parts in messages]
    assert clp_match(*columns(messages), wildcard).tolist() == expected


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    messages = [["took ", "12", " ms at ", "host1"], ["load ", "-0.50"], ["100% *"]]
    log_types, dictionary, encoded = zip(*(encode(parts) for parts in messages), strict=True)
    with gamay.connect(tmp_path_factory.mktemp("clp") / "data") as database:
        database.settings.null_handling = False
        table = {
            "msg_logtype": [*log_types, "lost \x11 \x12 \x13"],
            "msg_dictionaryVars": [*dictionary, ["x"]],
            "msg_encodedVars": [*encoded, [1]],
        }
        database.create_table("logs", pa.table(table))
        yield database


def test_in_queries(db: Database) -> None:
    assert [row[0] for row in db.sql("SELECT clpDecode(msg, 'none') FROM logs").rows()] == [
        "took 12 ms at host1",
        "load -0.50",
        "100% *",
        "none",
    ]
    assert db.sql("SELECT clpDecode(msg) FROM logs WHERE NOT clpMatch(msg, '*o*')").rows() == [("100% *",), ("",)]
    three = "msg_logtype, msg_dictionaryVars, msg_encodedVars"
    assert db.sql(f"SELECT count(*) FROM logs WHERE clpMatch({three}, '100% \\*')").rows() == [(1,)]
    assert db.sql(f"SELECT count(*) FROM logs WHERE clpDecode({three}) LIKE '%HOST1'").rows() == [(1,)]
