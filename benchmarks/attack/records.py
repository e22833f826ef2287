"""Stored records with one invalid field."""

import copy
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from gamay.base.clock import SYSTEM_CLOCK
from gamay.cluster.store.embedded_store import EmbeddedStore

_ROOT = "/PinotCluster"
_GONE = object()
_VALUES: tuple[Any, ...] = (_GONE, "", "NaN", "-1", "9" * 25, "{", "null", None, [], {}, 7)
_WHOLE = (b"{}", b"garbage", b"null", b"[]", b"\x1f\x8b\x00")


OfTable = list[tuple[str, list[tuple[str, bytes]]]]
"""(path, (what is different, value) of each mutant) of a table's records."""


def nodes(store: EmbeddedStore, path: str = _ROOT) -> Iterator[tuple[str, bytes]]:
    """Yield (path, value) of all records."""
    for name in store.children(path):
        below = f"{path}/{name}"
        node = store.get(below)
        if node is not None and node.value:
            yield below, node.value
        yield from nodes(store, below)


def mutants(value: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (description, value) of each record with one field changed, and of some with entirely different contents."""
    yield from ((repr(whole), whole) for whole in _WHOLE)
    for place in _places(orjson.loads(value)):
        for new in _VALUES:
            document = orjson.loads(value)
            parent = document
            for key in place[:-1]:
                parent = parent[key]
            if new is _GONE:
                del parent[place[-1]]
            else:
                parent[place[-1]] = copy.copy(new)
            yield f"{place} = {'gone' if new is _GONE else repr(new)}", orjson.dumps(document)


def overwrite(file: Path, path: str, value: bytes) -> None:
    """Write a record of a metadata store that no process has open."""
    store = EmbeddedStore.open(file, SYSTEM_CLOCK)
    node = store.get(path)
    assert node is not None
    store.set(path, value, node.version)
    store.close()


def records_of(file: Path, tables: Sequence[str]) -> list[OfTable]:
    """Return (path, mutants) of each table's records, by table."""
    store = EmbeddedStore.open(file, SYSTEM_CLOCK)
    found = list(nodes(store))
    store.close()
    return [
        [(path, list(mutants(value))) for path, value in found if {table, f"{table}_OFFLINE"} & set(path.split("/"))]
        for table in tables
    ]


def write_mutants(file: Path, records: Sequence[OfTable], rng: random.Random) -> list[str]:
    """Damage one record of each table; return the descriptions."""
    told = []
    for of_table in records:
        path, possible = rng.choice(of_table)
        what, value = rng.choice(possible)
        overwrite(file, path, value)
        told.append(f"{path}: {what}")
    return told


def _places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key in document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ():
        yield (*place, key)
        yield from _places(document[key], (*place, key))
