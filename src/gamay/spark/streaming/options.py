"""The options of `spark.readStream.format("gamay")`, in addition to those of reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from gamay.base.errors import InvalidConfigError
from gamay.spark.source_options import CHANGES, ON_REPLACE, STARTS, STREAM_READING, Given, ReadOptions

_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StreamReadOptions:
    """The options of a stream of a table's committed segments.

    starts_latest: whether to skip the segments that exist when a query starts. on_replace: the treatment of segments that
    replace some that were read: `fail`, `skip` or `read`. fails_on_data_loss: whether a deleted segment of a batch is an
    error. segments_max: the limit of a batch. only_latest: whether to skip rows of a table with primary keys that are no
    longer valid at the time of their batch.
    """

    read: ReadOptions
    starts_latest: bool = False
    on_replace: str = "fail"
    fails_on_data_loss: bool = True
    segments_max: int = _NO_LIMIT
    only_latest: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "StreamReadOptions":
        """Parse the options. Raises InvalidConfigError that suggests the most similar name for an unknown one."""
        given = Given(options, STREAM_READING, "reading a stream")
        return cls(
            ReadOptions.read_from(given),
            given.choice("startingSegments", STARTS, "earliest") == "latest",
            given.choice("onReplace", ON_REPLACE, "fail"),
            given.flag("failOnDataLoss", True),
            given.whole("maxSegmentsPerTrigger", _NO_LIMIT),
            given.choice("changes", CHANGES, "all") == "latest",
        )

    def check_one_type(self, halves: int) -> None:
        """Raise InvalidConfigError for a hybrid table without a choice of its type."""
        if halves != 1:
            raise InvalidConfigError(
                f"table '{self.read.cluster.table}' has an OFFLINE and a REALTIME half, which have the same rows at times: "
                f"say .option('tableType', 'OFFLINE') or 'REALTIME' to stream one of them"
            )
