"""Tables that consume a topic at stream level and at partition level hold its rows twice; queries must read one set."""

from collections.abc import Mapping

from gamay.cluster.records.llc_name import LlcName
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType

_STREAM_LEVEL_ROUTING = "KafkaHighLevel"
_TYPE_KEY = ".consumer.type"


def of_one_way(config: TableConfig, segments: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """Return the segments that queries read: of those consumed from a topic, either the stream-level or the partition-level
    ones.

    Stream-level ones if the table consumes only in that way, or `routing.routingTableBuilderName` is KafkaHighLevel;
    otherwise partition-level ones. So a table migrates from one way to the other without duplicate or missing rows. Uploaded
    segments are always read.
    """
    found = dict(segments)
    if config.table_type is TableType.OFFLINE:
        return found
    names = {segment: name for segment in segments if (name := LlcName.parse(segment)) is not None}
    if not any(name.is_stream_level for name in names.values()):
        return found
    stream_level = _reads_stream_level(config)
    for segment, name in names.items():
        if name.is_stream_level != stream_level:
            del found[segment]
    return found


def _reads_stream_level(config: TableConfig) -> bool:
    if config.routing.routing_table_builder_name == _STREAM_LEVEL_ROUTING:
        return True
    stream = config.ingestion.stream
    maps = [config.indexing.stream_configs or {}] if stream is None else stream.stream_config_maps
    kinds = [value for keys in maps for key, value in keys.items() if key.endswith(_TYPE_KEY)]
    return bool(kinds) and all({word.strip().lower() for word in kind.split(",")} == {"highlevel"} for kind in kinds)
