"""Ranges of a job's segments, of about the requested number of rows, none of them across two partitions.

Every task that converts rows counts them by partition and samples keys of evenly spaced rows. The driver combines the
samples and splits each partition into ranges of equal size; the split points determine the range of each row.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"
Key: TypeAlias = int | float | str | bytes
SAMPLES_MAX = 1_000_000  # total number of keys that a job samples from many files
_TASK_MIN, _TASK_MAX = 200, 20_000  # number of keys that a task samples


def samples_of_task(num_tasks: int) -> int:
    """Return the number of keys that each of `num_tasks` tasks should sample."""
    return min(max(SAMPLES_MAX // num_tasks, _TASK_MIN), _TASK_MAX)


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample of one task. counts: its rows by partition. rows: partition and key of every `stride`-th of them."""

    counts: dict[int, int]
    stride: int
    rows: list[tuple[int, Key]]

    def to_json(self) -> str:
        """Return the sample as JSON, the form that executors send; keys of bytes in hexadecimal."""
        rows = [[part, {"hex": key.hex()} if isinstance(key, bytes) else key] for part, key in self.rows]
        return json.dumps([list(self.counts.items()), self.stride, rows])

    @classmethod
    def from_json(cls, text: str) -> "Sample":
        """Read what `to_json` wrote."""
        counts, stride, rows = json.loads(text)
        keyed = [(part, bytes.fromhex(key["hex"]) if isinstance(key, dict) else key) for part, key in rows]
        return cls(dict(counts), stride, keyed)


class Sampler:
    """Sampler of the keys of evenly spaced rows: at most `size`, and at least half of that if there are enough rows."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._counts: Counter[int] = Counter()
        self._stride = 1
        self._rows: list[tuple[int, Key]] = []

    def add(self, partitions: "np.ndarray[Any, np.dtype[np.int32]]", keys: pa.Array | None) -> None:
        """Add rows, in order. partitions: int32[n]. keys: Arrow array of n values without nulls, None for no keys."""
        first = -self._counts.total() % self._stride
        chosen = np.arange(first, len(partitions), self._stride)
        for partition, count in zip(*np.unique(partitions, return_counts=True), strict=True):
            self._counts[int(partition)] += int(count)
        if keys is None:
            return
        # a NaN cannot be a split point; Spark sorts it after all numbers
        sampled = keys.take(pa.array(chosen)).to_pylist()
        self._rows += zip(partitions[chosen].tolist(), sampled, strict=True)
        while len(self._rows) > self._size:
            self._rows, self._stride = self._rows[::2], self._stride * 2

    def sample(self) -> Sample:
        """Return the sample."""
        return Sample(dict(self._counts), self._stride, [(part, key) for part, key in self._rows if key == key])


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of (partition, key), by their lower bounds; the first is unbounded.

    A key of None precedes all keys: the range starts with its partition.
    """

    starts: tuple[tuple[int, Key | None], ...]

    @classmethod
    def of(cls, samples: Sequence[Sample], rows_per_range: int) -> "Ranges":
        """Return ranges of about `rows_per_range` rows each, none of them across two partitions.

        If no keys were sampled, they are ranges of uniformly distributed 64-bit hashes.
        """
        counts: Counter[int] = Counter()
        weighted: dict[int, list[tuple[Any, int]]] = {}
        for sample in samples:
            counts.update(sample.counts)
            for partition, key in sample.rows:
                weighted.setdefault(partition, []).append((key, sample.stride))
        starts: list[tuple[int, Key | None]] = []
        for partition in sorted(counts):
            starts.append((partition, None))
            wanted = round(counts[partition] / rows_per_range)
            cuts = _cuts(sorted(weighted[partition]), wanted) if partition in weighted else _even_cuts(wanted)
            starts += [(partition, cut) for cut in cuts]
        return cls(tuple(starts) or ((0, None),))

    def __len__(self) -> int:
        return len(self.starts)

    def numbers(self, partitions: "np.ndarray[Any, np.dtype[np.int32]]", keys: pa.Array) -> "Numbers":
        """Return int32 [n]: the number of each row's range, from 0.

        partitions: int32 [n]. keys: Arrow array of n values without nulls; a NaN sorts after all numbers.
        """
        result = np.zeros(len(partitions), np.int32)
        begun_by = [partition for partition, _ in self.starts]
        for partition in np.unique(partitions).tolist():
            first, stop = bisect_left(begun_by, partition), bisect_right(begun_by, partition)
            cuts = [key for _, key in self.starts[first + 1 : stop]]
            rows = partitions == partition
            result[rows] = first + _places(cuts, keys if rows.all() else keys.filter(pa.array(rows)))
        return result


def _places(cuts: list[Any], keys: pa.Array) -> "Numbers":
    """Return the number of ascending split points that are not greater than each key."""
    if pa.types.is_integer(keys.type) or pa.types.is_floating(keys.type):
        values = np.asarray(keys)
        return np.asarray(np.searchsorted(np.array(cuts, values.dtype), values, side="right"), np.int32)
    texts = keys.dictionary_encode()
    places = np.array([bisect_right(cuts, key) for key in texts.dictionary.to_pylist()], np.int32)
    return np.asarray(places[np.asarray(texts.indices)])


def _cuts(weighted: list[tuple[Any, int]], wanted: int) -> list[Any]:
    """Return at most `wanted - 1` ascending keys that split sorted (key, weight) pairs into parts of equal weight.

    Rows of one key are never split, and no part is empty.
    """
    sums = list(accumulate(weight for _, weight in weighted))
    cuts: list[Any] = []
    for number in range(1, wanted):
        place = int(np.searchsorted(sums, sums[-1] * number / wanted, side="right"))
        key = weighted[min(place, len(weighted) - 1)][0]
        if key > (cuts[-1] if cuts else weighted[0][0]):
            cuts.append(key)
    return cuts


def _even_cuts(wanted: int) -> list[int]:
    return [-(1 << 63) + (number << 64) // wanted for number in range(1, wanted)]
