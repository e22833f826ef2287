"""Stored quotas of single databases and applications, besides the cluster's settings for all of them."""

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
    """Return all stored quotas as settings `<cluster's setting>.<name of the database or application>`.

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
    """Return the stored quota of a database in queries per second, or None."""
    return settings_at(store, paths.database(name)).get(_RATE)


def set_database_quota(store: MetadataStore, name: str, rate: str | None) -> None:
    """Store the quota of a database in queries per second; None removes it. Raises InvalidConfigError."""
    simple = {"databaseName": name} | ({} if rate is None else {_RATE: checked_rate(rate)})
    update(store, paths.database(name), lambda _: encode(ZNRecord(name, simple)))


def application_quotas(store: MetadataStore) -> Mapping[str, str]:
    """Return the stored quotas of applications in queries per second, by name."""
    return settings_at(store, paths.APPLICATION_QUOTAS)


def set_application_quota(store: MetadataStore, name: str, rate: str | None) -> None:
    """Store the quota of an application in queries per second; None removes it. Raises InvalidConfigError."""
    checked = None if rate is None else checked_rate(rate)

    def change(value: bytes | None) -> bytes:
        simple = {} if value is None else dict(decode(value).simple)
        simple.pop(name, None)
        if checked is not None:
            simple[name] = checked
        return encode(ZNRecord("applicationQuotas", simple))

    update(store, paths.APPLICATION_QUOTAS, change)


def checked_rate(text: str) -> str:
    """Return a quota in its stored form. Raises InvalidConfigError unless it is a number greater than 0."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise InvalidConfigError(f"{_RATE}: '{text}' is not a number greater than 0; leave it out to remove the quota")
    return text.strip()
