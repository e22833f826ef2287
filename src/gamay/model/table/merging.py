"""How tasks merge rows of existing segments: the types of merging, and the functions that merge a metric's values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.types import DataType

_NUMBERS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE)


class MergeType(Enum):
    """How similar rows are merged."""

    CONCAT = "CONCAT"  # all rows are kept
    ROLLUP = "ROLLUP"  # rows with equal dimensions and times become one, whose metrics are aggregated
    DEDUP = "DEDUP"  # of rows that are equal in every column, one is kept


class MergeFunction(Enum):
    """A function that merges the values of a metric. Those of the last eight are serialised sketches."""

    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    AVG = "AVG"
    FIRST_WITH_TIME = "FIRSTWITHTIME"
    LAST_WITH_TIME = "LASTWITHTIME"
    HLL = "DISTINCTCOUNTHLL"
    HLL_PLUS = "DISTINCTCOUNTHLLPLUS"
    ULL = "DISTINCTCOUNTULL"
    THETA = "DISTINCTCOUNTTHETASKETCH"
    TUPLE = "DISTINCTCOUNTTUPLESKETCH"
    CPC = "DISTINCTCOUNTCPCSKETCH"
    KLL = "PERCENTILEKLL"
    T_DIGEST = "PERCENTILETDIGEST"

    @property
    def is_sketch(self) -> bool:
        """Whether the metric holds serialised sketches."""
        return self in _SKETCHES

    def takes(self, data_type: DataType) -> bool:
        """Whether metrics of a type can be merged by this function."""
        if self in (MergeFunction.FIRST_WITH_TIME, MergeFunction.LAST_WITH_TIME):
            return True
        if self.is_sketch:
            return data_type is DataType.BYTES
        return data_type in _NUMBERS or (data_type is DataType.BIG_DECIMAL and self is not MergeFunction.AVG)


_SKETCHES = frozenset(
    {
        MergeFunction.HLL, MergeFunction.HLL_PLUS, MergeFunction.ULL, MergeFunction.THETA, MergeFunction.TUPLE,
        MergeFunction.CPC, MergeFunction.KLL, MergeFunction.T_DIGEST,
    }
)  # fmt: skip
# raw results of a sketch are merged like the sketch
_ALIASES = {
    "DISTINCTCOUNTRAWHLL": MergeFunction.HLL,
    "DISTINCTCOUNTRAWHLLPLUS": MergeFunction.HLL_PLUS,
    "DISTINCTCOUNTRAWULL": MergeFunction.ULL,
    "DISTINCTCOUNTRAWTHETASKETCH": MergeFunction.THETA,
    "DISTINCTCOUNTRAWINTEGERSUMTUPLESKETCH": MergeFunction.TUPLE,
    "SUMVALUESINTEGERSUMTUPLESKETCH": MergeFunction.TUPLE,
    "AVGVALUEINTEGERSUMTUPLESKETCH": MergeFunction.TUPLE,
    "DISTINCTCOUNTRAWCPCSKETCH": MergeFunction.CPC,
    "PERCENTILERAWKLL": MergeFunction.KLL,
    "PERCENTILERAWTDIGEST": MergeFunction.T_DIGEST,
}
_PARAMETERS: Mapping[MergeFunction, tuple[str, ...]] = {
    MergeFunction.THETA: ("nominalEntries", "samplingProbability"),
    MergeFunction.TUPLE: ("nominalEntries",),
    MergeFunction.CPC: ("lgK",),
    MergeFunction.KLL: ("K",),
    MergeFunction.T_DIGEST: ("compressionFactor",),
}


@dataclass(frozen=True, slots=True)
class MetricMerge:
    """How one metric is aggregated. parameters: of the resulting sketch, by their names in configs."""

    function: MergeFunction = MergeFunction.SUM
    parameters: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, parameters: Mapping[str, str]) -> "MetricMerge":
        """Parse the name of a function, in any spelling, and its parameters. Raises InvalidConfigError."""
        names = [function.value for function in MergeFunction]
        plain = name.replace("_", "").strip().upper()
        function = _ALIASES.get(plain) or next((known for known in MergeFunction if known.value == plain), None)
        if function is None:
            raise InvalidConfigError(
                f"'{name}' is no function by which rows are merged; use {', '.join(names)}.{nearest(plain, names)}"
            )
        known = _PARAMETERS.get(function, ())
        numbers = {}
        for key, text in parameters.items():
            if key not in known:
                what = f"has the parameters {', '.join(known)}" if known else "has no parameters"
                raise InvalidConfigError(f"{function.value} {what}, not '{key}'.{nearest(key, known)}")
            try:
                numbers[key] = float(text)
            except ValueError:
                raise InvalidConfigError(f"{function.value}: {key} is a number, not '{text}'") from None
        return cls(function, numbers)
