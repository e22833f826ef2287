"""Lookup of stream types and decoders by name: built-in ones, those of users' packages, and Pinot's class names.

Users' packages register theirs in the entry-point groups `gamay.streams` and `gamay.decoders`.
"""

import importlib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.spi import ALL_FIELDS, InputFields, MessageDecoder, StreamConsumerFactory, StreamContext

STREAMS = "gamay.streams"
DECODERS = "gamay.decoders"

_BUILT_IN: Mapping[str, Mapping[str, str]] = {
    STREAMS: {
        "kafka": "gamay.ingest.stream.kafka:KafkaStream",
        "log": "gamay.ingest.stream.log.plugin:LogStream",
    },
    DECODERS: {
        "json": "gamay.ingest.stream.decode.json_formats:JsonFormatDecoder",
        "json-registry": "gamay.ingest.stream.decode.registry_json:RegistryJsonDecoder",
        "avro": "gamay.ingest.stream.decode.avro_decoder:AvroDecoder",
        "avro-registry": "gamay.ingest.stream.decode.avro_decoder:RegistryAvroDecoder",
        "bson": "gamay.ingest.stream.decode.bson_decoder:BsonDecoder",
        "clp": "gamay.ingest.stream.decode.clp_decoder:ClpDecoder",
        "csv": "gamay.ingest.stream.decode.csv_decoder:CsvDecoder",
        "arrow": "gamay.ingest.stream.decode.arrow_decoder:ArrowDecoder",
        "protobuf": "gamay.ingest.stream.decode.protobuf_decoder:ProtobufDecoder",
        "protobuf-registry": "gamay.ingest.stream.decode.registry_protobuf:RegistryProtobufDecoder",
    },
}
_PINOT_CLASSES: Mapping[str, Mapping[str, str]] = {
    STREAMS: {"KafkaConsumerFactory": "kafka"},
    DECODERS: {
        "JSONMessageDecoder": "json",
        "KafkaJSONMessageDecoder": "json",
        "KafkaConfluentSchemaRegistryJsonMessageDecoder": "json-registry",
        "SimpleAvroMessageDecoder": "avro",
        "KafkaConfluentSchemaRegistryAvroMessageDecoder": "avro-registry",
        "BSONMessageDecoder": "bson",
        "CLPLogMessageDecoder": "clp",
        "CSVMessageDecoder": "csv",
        "ArrowMessageDecoder": "arrow",
        "ProtoBufMessageDecoder": "protobuf",
        "KafkaConfluentSchemaRegistryProtoBufMessageDecoder": "protobuf-registry",
    },
}
_WITHOUT_MEANS: Mapping[str, str] = {
    "ProtoBufCodeGenMessageDecoder": "it runs classes of Java; give ProtoBufMessageDecoder the descriptor file",
    "KafkaAvroMessageDecoder": "it reads schemas of a registry that is no longer made; use "
    "KafkaConfluentSchemaRegistryAvroMessageDecoder, or SimpleAvroMessageDecoder with leading.bytes.to.strip",
}
"""Unsupported decoders of Pinot, and what to use instead."""


def addresses(config: StreamConfig) -> Iterator[tuple[str, str]]:
    """Yield the config key and URI (`kafka://host:port`) of each address that a stream connects to.

    A plug-in without `addresses` may connect anywhere, reported as a URI without a host. Raises as `open_stream` does.
    """
    factory, key = _factory(config)
    told = getattr(factory, "addresses", None)  # missing in packages written before it was introduced
    if told is not None:
        yield from told(config)
    else:
        yield key, f"{config.factory_name or config.stream_type}://"


def open_stream(config: StreamConfig, context: StreamContext) -> StreamConsumerFactory:
    """Return the stream of a config; raises InvalidConfigError for an unknown type, class name or key."""
    factory, _ = _factory(config)
    _check_keys(config, factory)
    made: StreamConsumerFactory = factory(config, context)
    return made


def open_decoder(config: StreamConfig, fields: InputFields = ALL_FIELDS) -> MessageDecoder:
    """Return the decoder of a config; raises InvalidConfigError for an unknown name or invalid properties."""
    key = config.property_key("decoder.class.name")
    if config.decoder_name is None:
        known = ", ".join(sorted(_BUILT_IN[DECODERS]))
        raise InvalidConfigError(f"{key} is required: one of {known}, or the class name of one of Pinot's decoders")
    decoder: MessageDecoder = _find(DECODERS, config.decoder_name, key, "decoder")(config, fields)
    return decoder


def _factory(config: StreamConfig) -> tuple[Any, str]:
    """Return the class of a stream, and the config key that selects it."""
    key = config.property_key("consumer.factory.class.name") if config.factory_name else "streamType"
    return _find(STREAMS, config.factory_name or config.stream_type, key, "stream type"), key


def _find(group: str, name: str, key: str, what: str) -> Any:
    built_in = _BUILT_IN[group]
    simple = name.rpartition(".")[2]
    target = built_in.get(name.lower()) or built_in.get(_PINOT_CLASSES[group].get(simple, ""))
    if target is not None:
        module, _, attribute = target.partition(":")
        return getattr(importlib.import_module(module), attribute)
    installed = {entry.name: entry for entry in entry_points(group=group)}
    if name in installed:
        try:
            return installed[name].load()
        except Exception as error:
            raise InvalidConfigError(f"{key}: the {what} '{name}' cannot be loaded: {error!r}") from error
    if group == DECODERS and simple in _WITHOUT_MEANS:
        raise InvalidConfigError(f"{key}: the decoder '{simple}' is not supported: {_WITHOUT_MEANS[simple]}")
    known = [*built_in, *installed]
    raise InvalidConfigError(f"{key}: unknown {what} '{name}'; known are {', '.join(known)}.{nearest(name, known)}")


def _check_keys(config: StreamConfig, factory: type[StreamConsumerFactory]) -> None:
    kind = config.stream_type
    problems = [
        f"{config.property_key(name)}: the stream type '{kind}' has no such key.{nearest(name, factory.properties)}"
        for name in config.properties
        if name not in factory.properties
    ]
    if not factory.takes_client_properties:
        problems += [f"{name}: is not a known key of a stream of type '{kind}'" for name in config.client_properties]
        problems += [
            f"{config.property_key('consumer.prop.' + name)}: is not a known key; the stream type has no client library"
            for name in config.consumer_properties
        ]
    if problems:
        raise InvalidConfigError("; ".join(problems))
