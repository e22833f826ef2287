"""Whether what servers say of the rows of a segment that count may be acted on. Pure.

Each replica decides by itself which rows are valid. They decide alike, but not at the same moment, and a server that is
starting, or has another copy of the segment, does not know. So nothing is removed on the word of one of them, unless a
table says so.
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
    """What one server says. valid: how many rows are valid; docs: which, in a form that can be compared."""

    server: str
    status: str
    crc: str
    valid: int
    docs: Docs


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the answers cannot be acted on."""

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
    """Return the replica whose word counts, or why none does.

    UNSAFE: the first that can be used. EQUAL: any, if all `assigned` servers answered, are ready, have the copy with this
    CRC and say the same. MOST_VALID_DOCS: of these, the one with most valid rows. same: whether two say the same; by
    default whether they are equal.
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
