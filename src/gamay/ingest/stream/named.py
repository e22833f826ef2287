"""Files and URLs that a stream's config makes processes open besides the stream; naming them requires a right."""

from collections.abc import Iterator
from pathlib import Path

from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.kafka_settings import named_files

_REGISTRY_URL = "schema.registry.rest.url"
_DECODER_FILES = ("descriptorFile", "schema.registry.ssl.ca.location")


def registry_urls(config: StreamConfig) -> list[str]:
    """Return the URLs of the schema registries that a decoder queries."""
    given = config.decoder_properties.get(_REGISTRY_URL, "").split(",")
    return [url.strip().rstrip("/") for url in given if url.strip()]


def schema_file(config: StreamConfig) -> str | None:
    """Return the path of a decoder's schema file; None if the schema is inline or absent."""
    text = config.decoder_properties.get("schema", "").strip()
    return text if text and text[0] not in '{["' else None


def named_by(config: StreamConfig) -> Iterator[tuple[str, str]]:
    """Yield key and value of each setting that names a local path or a URL. Keys of third-party plug-ins are not checked."""
    decoder = config.property_key("decoder.prop.")
    for url in registry_urls(config):
        yield f"{decoder}{_REGISTRY_URL}", url
    if (file := schema_file(config)) is not None:
        yield f"{decoder}schema", file
    for key in _DECODER_FILES:
        if path := config.decoder_properties.get(key, "").strip():
            yield f"{decoder}{key}", path.removeprefix("file://")
    if "folder" in config.properties:
        yield config.property_key("folder"), str(Path(config.properties["folder"]))
    yield from named_files(config)
