"""Counters of each partition that a server consumes, over all of the partition's segments."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gamay.cluster.records.completion import Status
from gamay.server.consuming.dead_letters import DeadLetter, DeadLetterKind


@dataclass(slots=True)
class PartitionCounts:
    """Counters since the start of the process; one thread counts, any may read.

    messages: fetched. rows: indexed. sanitised: rows with truncated text. dead: entries of the dead
    letters, by kind. fetch_failures: failed fetches, including retried ones. indexing_failures: batches of
    rows that a segment could not index. ahead: segments that had more rows here than were committed. answers: of the
    controller. build_s: duration of the last build; completion_s: from the end of consumption until the built segment was
    served; None before the first.
    """

    messages: int = 0
    rows: int = 0
    filtered: int = 0
    foreign: int = 0
    incomplete: int = 0
    sanitised: int = 0
    dead: Counter[DeadLetterKind] = field(default_factory=Counter)
    fetch_failures: int = 0
    indexing_failures: int = 0
    build_failures: int = 0
    upload_failures: int = 0
    ahead: int = 0
    answers: Counter[Status] = field(default_factory=Counter)
    build_s: float | None = None
    completion_s: float | None = None

    def count_dead(self, letters: "Sequence[DeadLetter]") -> None:
        """Count messages that could not become rows, and gaps in the stream."""
        self.dead.update(letter.kind for letter in letters)
