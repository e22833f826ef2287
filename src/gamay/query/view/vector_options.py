"""The query options for vector searches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gamay.query.bind.predicate import Near


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """The options of vector searches. candidates, probes, effort: as in `gamay.segment.spi.NearestSearch`.

    radius: VECTOR_SIMILARITY matches all vectors within this distance, however many there are. None: no such option.
    """

    candidates: int | None = None
    probes: int | None = None
    effort: int | None = None
    radius: float | None = None

    @staticmethod
    def of(options: Mapping[str, str]) -> "VectorOptions":
        """Return the options of a query, which must have been checked."""
        if not options:
            return NO_OPTIONS
        names = ("vectorMaxCandidates", "vectorNprobe", "vectorEfSearch")
        candidates, probes, effort = (int(options[name]) if name in options else None for name in names)
        radius = options.get("vectorDistanceThreshold")
        return VectorOptions(candidates, probes, effort, None if radius is None else float(radius))

    def applied(self, leaf: Near) -> Near:
        """Return a predicate with the options applied."""
        return leaf if self.radius is None or leaf.count is None else replace(leaf, count=None, radius=self.radius)


NO_OPTIONS = VectorOptions()
