"""Unique names as an argument."""

import uuid
from typing import Protocol


class Ids(Protocol):
    """A source of unique names."""

    def new(self) -> str:
        """Return a name that was never returned before, safe in a file name and a URL."""
        ...


class RandomIds:
    """Random (version 4) UUIDs."""

    def new(self) -> str:
        return str(uuid.uuid4())


class CountingIds:
    """`id-1`, `id-2`, …: for tests that compare whole outputs."""

    def __init__(self) -> None:
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return f"id-{self._count}"


class FixedId:
    """One name, fixed in advance, so that repeating the work yields the same name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def new(self) -> str:
        return self._name


RANDOM_IDS = RandomIds()
