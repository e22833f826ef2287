"""Consensus of servers about the valid rows of a segment.

Pure. Each replica determines by itself which rows are valid. The results are equal, but not at the same moment, and a
server that is starting, or has another copy of the segment, does not know. So nothing is removed based on a single
replica, unless a table is configured so.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

GOOD = "GOOD"
UNSAFE = "UNSAFE"
EQUAL = "EQUAL"
MOST_VALID_DOCS = "MOST_VALID_DOCS"

Docs = TypeVar("Docs")


@dataclass(frozen=True, slots=True)
class Replica(Generic[Docs]):
    """The report of one server. valid: the number of valid rows; docs: the valid rows, in a comparable form."""

    server: str
    status: str
    crc: str
    valid: int
    docs: Docs


@dataclass(frozen=True, slots=True)
class Refused:
    """The reason why there is no consensus."""

    reason: str


def agreed(
    mode: str,
    replicas: Sequence[Replica[Docs]],
    assigned: Collection[str],
    crc: str,
    *,
    ignore_crc: bool = False,
    same: "Callable[[Docs, Docs], bool] | None" = None,
) -> "Replica[Docs] | Refused":
    """Return the replica to rely on, or why there is none.

    UNSAFE: the first usable one. EQUAL: any, if all `assigned` servers answered, are ready, have the copy with this CRC
    and agree. MOST_VALID_DOCS: of these, the one with the most valid rows. same: compares the docs of two replicas;
    default: equality.
    """
    usable = []
    problems = []
    for replica in replicas:
        if replica.status != GOOD:
            problems.append(f"{replica.server} is not ready ({replica.status})")
        elif replica.crc != crc and not ignore_crc:
            problems.append(f"{replica.server} has the copy with CRC {replica.crc}, not {crc}")
        else:
            usable.append(replica)
    if mode == UNSAFE:
        return usable[0] if usable else Refused("; ".join(problems) or "no server answered")
    silent = sorted(set(assigned) - {replica.server for replica in replicas})
    if silent:
        problems.append(f"no answer from {', '.join(silent)}")
    if problems or not usable:
        return Refused("; ".join(problems) or "no server has it")
    if mode == MOST_VALID_DOCS:
        return max(usable, key=lambda replica: replica.valid)
    first = usable[0]
    alike = same or (lambda a, b: bool(a == b))
    for other in usable[1:]:
        if other.valid != first.valid or not alike(first.docs, other.docs):
            return Refused(f"{first.server} says that {first.valid} rows are valid, {other.server} {other.valid}, or others")
    return first
