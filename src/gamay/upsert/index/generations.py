"""A primary-key index in two generations: keys that no row has renewed within metadataTTL are dropped without a scan.

Every key that is put moves to the young generation. When the watermark has risen by more
than the TTL since the young one was started, everything in the old one is beyond the TTL: it is dropped, the young one takes
its place, and a new one is started. This does not affect results: every lookup checks whether the key has expired, so
replicas that drop keys at different times decide alike.
"""

from collections.abc import Iterable

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.keys.table import ABSENT, DELETED_BIT
from gamay.upsert.index.comparing import beyond
from gamay.upsert.index.key_index import KeyIndex, Keys, NewRows, Put, Rules

_OVER_ANY = 2


class GenerationIndex(KeyIndex):
    """A `KeyIndex` with two generations, itself the young one. ttl: in units of the comparison values, > 0."""

    def __init__(self, words: int, num_comparisons: int, ttl: float, *, is_float: bool) -> None:
        super().__init__(words, num_comparisons)
        self._ttl, self._is_float = ttl, is_float
        self._aged = KeyIndex(words, num_comparisons)
        self._begun_at = ABSENT
        self.num_dropped = 0

    def __len__(self) -> int:
        return super().__len__() + len(self._aged)

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return super().num_bytes + self._aged.num_bytes

    def put(
        self, keys: Keys, comparisons: Array, chosen: Array, deletes: Array, wins_tie: Array, rules: Rules,
        docs: "Array | None" = None, *, undoable: bool = False,
    ) -> Put:  # fmt: skip
        """Drop an expired generation, then put rows in order, see `KeyIndex.put`."""
        self._turn()
        self._renew(keys)
        return super().put(keys, comparisons, chosen, deletes, wins_tie, rules, docs, undoable=undoable)

    def build(self, parts: Iterable[NewRows], num_keys: int, *, ttl: float = 0.0, is_float: bool = False) -> bool:
        """Add rows with new keys, see `KeyIndex.build`; return False while there is an old generation."""
        return not len(self._aged) and super().build(parts, num_keys, ttl=ttl, is_float=is_float)

    def find(self, keys: Keys) -> tuple[Array, Array]:
        """Return locations and comparison values, see `KeyIndex.find`."""
        locations, comparisons = super().find(keys)
        missing = np.flatnonzero(locations < 0)
        if len(missing) and len(self._aged):
            locations[missing], comparisons[missing] = self._aged.find(keys.at(missing))
        return locations, comparisons

    def move(self, keys: Keys, sources: Array, targets: Array) -> Array:
        """Move keys to other locations, see `KeyIndex.move`."""
        moved: Array = super().move(keys, sources, targets) | self._aged.move(keys, sources, targets)
        return moved

    def items(self) -> tuple[Array, Array]:
        """Return locations and first comparison values of all keys."""
        parts = [super().items(), self._aged.items()]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def remove_segment(self, ordinal: int) -> Array:
        """Remove all keys of a segment; return their locations."""
        return np.concatenate([super().remove_segment(ordinal), self._aged.remove_segment(ordinal)])

    def remove_expired(self, rules: Rules) -> Array:
        """Remove the deleted keys beyond `deleted_ttl`; other expired keys are dropped with their generation."""
        if rules.deleted_ttl <= 0:
            return np.empty(0, np.int64)
        self._aged.set_watermark(self.watermark)  # it may have been lowered by a rollback
        return np.concatenate([super().remove_expired(rules), self._aged.remove_expired(rules)])

    def _turn(self) -> None:
        """Drop the old generation if all of it is beyond the TTL."""
        watermark = self.watermark
        if watermark == ABSENT:
            return
        if self._begun_at == ABSENT:
            self._begun_at = watermark
        elif beyond(np.array([self._begun_at]), watermark, self._ttl, self._is_float)[0]:
            self.num_dropped += len(self._aged)
            self._aged = KeyIndex(self.words, self.num_comparisons)
            self._aged.swap(self)
            self.raise_watermark(watermark)
            self._begun_at = watermark

    def _renew(self, keys: Keys) -> None:
        """Move keys from the old generation to the young one."""
        if not len(self._aged):
            return
        locations, comparisons = self._aged.take(keys)
        taken = np.flatnonzero(locations >= 0)
        ordinals = locations[taken] >> 32
        for ordinal in np.unique(ordinals):
            rows = taken[ordinals == ordinal]
            places, wins = locations[rows], np.full(int(ordinal) + 1, _OVER_ANY, np.uint8)
            deletes = ((places & DELETED_BIT) != 0).astype(np.uint8)
            docs, chosen = places & (DELETED_BIT - 1), np.full(len(rows), -1, np.int8)
            super().put(keys.at(rows), comparisons[rows], chosen, deletes, wins, Rules(int(ordinal)), docs)
