"""Validation of decoder properties: unknown ones are rejected."""

from gamay.base.errors import InvalidConfigError, nearest
from gamay.ingest.stream.config import StreamConfig

ALWAYS_KNOWN = ("stopOnDecodeError",)
REGISTRY_PROPERTIES = (
    "schema.registry.rest.url", "schema.registry.basic.auth.user.info", "basic.auth.user.info",
    "schema.registry.basic.auth.credentials.source", "basic.auth.credentials.source", "schema.registry.ssl.ca.location",
    "cached.schema.map.capacity",
)  # fmt: skip


def check_properties(config: StreamConfig, *known: str) -> None:
    """Raise InvalidConfigError for an unknown property below `decoder.prop.`, with its key and the most similar name."""
    for name in config.decoder_properties:
        if name not in known and name not in ALWAYS_KNOWN:
            key = config.property_key(f"decoder.prop.{name}")
            raise InvalidConfigError(
                f"{key}: the decoder '{config.decoder_name}' has no such property.{nearest(name, known)}"
            )
