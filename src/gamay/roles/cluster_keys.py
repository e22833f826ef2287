"""Messages about unknown keys in a role's file, some of which are settings of the whole cluster."""

from collections.abc import Iterable

from gamay.base.errors import nearest
from gamay.model.cluster_settings import CLUSTER_SETTINGS

AUTO_JOIN = "allowParticipantAutoJoin"


def cluster_keys() -> frozenset[str]:
    """Return the names of the settings that processes read from the metadata store, whatever their files say."""
    from gamay.broker.answer import query_log  # which a file without unknown keys does not need
    from gamay.cluster.records import quotas
    from gamay.query.limits import budget, spill_files

    others = (
        AUTO_JOIN,
        *(query_log.RATE_SETTING, query_log.LENGTH_SETTING, query_log.SLOW_SETTING),
        *(budget.QUERY_SETTING, budget.TOTAL_SETTING, spill_files.SPILL_SETTING),
        *(quotas.DATABASE_SETTING, quotas.APPLICATION_SETTING),
    )
    return frozenset((*(setting.name for setting in CLUSTER_SETTINGS), *others))


def unknown_key(key: str, reader: str, known: Iterable[str]) -> str:
    """Return a sentence about an unknown key of a file.

    reader: the role with its article, such as `a server`. known: the keys of the role.
    """
    shared = cluster_keys()
    if key in shared:
        return (
            f"'{key}' is a setting of the cluster, which no file changes: send it to POST /cluster/configs of a controller"
        )
    return f"'{key}' means nothing to {reader}.{nearest(key, (*known, *shared))}"
