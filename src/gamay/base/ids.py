"""Unique names as an argument."""

import uuid
from typing import Protocol


class Ids(Protocol):
    """Where names that must be unique come from."""

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
    """One name, given beforehand, which whoever does the work again gives again."""

    def __init__(self, name: str) -> None:
        self._name = name

    def new(self) -> str:
        return self._name


RANDOM_IDS = RandomIds()
