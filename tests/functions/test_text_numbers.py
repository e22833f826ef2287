"""Numbering of texts against a Python dictionary, and the memory reserved for it."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.distinct.text_numbers import TextNumbers

TEXTS = st.text(alphabet="aü\0€", max_size=20) | st.integers(0, 3000).map(lambda n: f"some longer text {n}")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(TEXTS, max_size=30), max_size=5), st.booleans())
def test_numbers_are_those_of_a_dictionary(blocks: list[list[str]], is_binary: bool) -> None:
    numbers = TextNumbers("texts", pa.binary() if is_binary else pa.string())
    known: dict[str | bytes, int] = {}
    for block in blocks:
        values = [text.encode() if is_binary else text for text in block]
        array = pa.array(["left out", *block]).slice(1).cast(pa.binary() if is_binary else pa.string())
        assert numbers.number(array).tolist() == [known.setdefault(value, len(known)) for value in values]
        assert numbers.texts.to_pylist() == list(known)


def test_many_texts_are_numbered_beyond_every_growth() -> None:
    numbers = TextNumbers("texts", pa.string())
    texts = [f"{'x' * (n % 50)}{n}" for n in range(40_000)]
    for start in range(0, len(texts), 7_000):
        part = texts[max(0, start - 3_000) : start + 7_000]
        assert numbers.number(pa.array(part)).tolist() == list(range(max(0, start - 3_000), min(start + 7_000, 40_000)))
    assert numbers.texts.to_pylist() == texts


def test_memory_is_asked_for_before_it_is_taken() -> None:
    class Strict(guard.NullGuard):
        def reserve(self, what: str, num_bytes: int) -> None:
            raise QueryError(ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED, f"{what}: {num_bytes} bytes")

    numbers = TextNumbers("texts", pa.string())
    before = guard.enter(Strict())
    try:
        with pytest.raises(QueryError, match="texts: "):
            numbers.number(pa.array([str(n) * 20 for n in range(100_000)]))
    finally:
        guard.enter(before)
