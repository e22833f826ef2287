"""Settings of a minion's builds: how many in parallel in its own process, or the Spark cluster."""

from dataclasses import dataclass
from typing import Self

from gamay.base.errors import InvalidConfigError
from gamay.storage.filesystems import scheme_of

MASTER = "gamay.minion.spark.master"
STAGING_URI = "gamay.minion.spark.staging.uri"
BUILDS = "gamay.minion.builds"
_MASTERS = ("local", "spark://", "yarn", "k8s://")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Spark settings. master: such as `spark://host:7077` or `local[4]`. staging_uri: a folder shared by executors
    and minion."""

    master: str
    staging_uri: str

    @classmethod
    def of(cls, master: str | None, staging_uri: str | None) -> "Self | None":
        """Return the settings from two keys, or None if both are missing. Raises InvalidConfigError."""
        if not master and not staging_uri:
            return None
        if not master or not staging_uri:
            here, missing = (MASTER, STAGING_URI) if master else (STAGING_URI, MASTER)
            what = "a folder that Spark's executors and this minion reach" if master else "Spark's master"
            raise InvalidConfigError(f"'{here}' needs '{missing}', too: {what}")
        if not master.startswith(_MASTERS):
            raise InvalidConfigError(f"'{MASTER}' cannot be '{master}': it must begin with one of {', '.join(_MASTERS)}")
        scheme = scheme_of(staging_uri)
        if scheme in ("http", "https") or (scheme is None and not staging_uri.startswith("/")):
            raise InvalidConfigError(
                f"'{STAGING_URI}' cannot be '{staging_uri}': it must be an absolute path or a writable URI"
            )
        return cls(master, staging_uri.rstrip("/"))
