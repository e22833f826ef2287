"""Quotas that are stored for single databases and applications, beside the cluster's settings for all of them."""

from collections.abc import Mapping

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.registry import Registry, settings_at
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore, update
from gamay.cluster.store.znrecord import ZNRecord, decode, encode

DATABASE_SETTING = "databaseMaxQueriesPerSecond"
APPLICATION_SETTING = "applicationMaxQueriesPerSecond"
RATE_LIMIT_DISABLED = "queryRateLimitDisabled"
_RATE = "maxQueriesPerSecond"


def quota_settings(registry: Registry) -> dict[str, str]:
    """Return all that is stored, as settings: the cluster's setting, a dot, and the name of what the quota is for.

    The brokers without quotas are `queryRateLimitDisabled.<instance>`.
    """
    found = {f"{APPLICATION_SETTING}.{name}": rate for name, rate in application_quotas(registry.store).items()}
    for name in registry.store.children(paths.DATABASES):
        if (rate := database_quota(registry.store, name)) is not None:
            found[f"{DATABASE_SETTING}.{name}"] = rate
    for instance in registry.instances():
        if instance.extra.get(RATE_LIMIT_DISABLED) == "true":
            found[f"{RATE_LIMIT_DISABLED}.{instance.id}"] = "true"
    return found


def database_quota(store: MetadataStore, name: str) -> str | None:
    """Return the queries a second that are stored for a database; None where nothing is."""
    return settings_at(store, paths.database(name)).get(_RATE)


def set_database_quota(store: MetadataStore, name: str, rate: str | None) -> None:
    """Store the queries a second of a database; None forgets them. Raises InvalidConfigError."""
    simple = {"databaseName": name} | ({} if rate is None else {_RATE: checked_rate(rate)})
    update(store, paths.database(name), lambda _: encode(ZNRecord(name, simple)))


def application_quotas(store: MetadataStore) -> Mapping[str, str]:
    """Return the queries a second that are stored for applications, by name."""
    return settings_at(store, paths.APPLICATION_QUOTAS)


def set_application_quota(store: MetadataStore, name: str, rate: str | None) -> None:
    """Store the queries a second of an application; None forgets them. Raises InvalidConfigError."""
    checked = None if rate is None else checked_rate(rate)

    def change(value: bytes | None) -> bytes:
        simple = {} if value is None else dict(decode(value).simple)
        simple.pop(name, None)
        if checked is not None:
            simple[name] = checked
        return encode(ZNRecord("applicationQuotas", simple))

    update(store, paths.APPLICATION_QUOTAS, change)


def checked_rate(text: str) -> str:
    """Return a quota as it is stored. Raises InvalidConfigError unless it is a number greater than 0."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise InvalidConfigError(f"{_RATE}: '{text}' is no number greater than 0; leave it out to remove the quota")
    return text.strip()
