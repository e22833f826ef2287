"""Check whether forced commits and reloads are allowed, by the consistency mode of consuming segments."""

from gamay.base.errors import ConflictError
from gamay.cluster.records.registry import Registry
from gamay.model.cluster_settings import CONSUMING_SEGMENT_CONSISTENCY
from gamay.model.table.table_config import TableConfig

_RESTRICTED = "RESTRICTED"


def refuse_restricted(registry: Registry, config: TableConfig, action: str) -> None:
    """Raise ConflictError if the mode forbids an action on a table.

    The mode concerns tables whose rows depend on earlier ones. It defaults to RESTRICTED for tables with several
    replicas; with one, no replica can be ahead. action: the subject of the message's relative clause.
    """
    upsert = config.active_upsert
    if upsert is None or not (
        upsert.mode == "PARTIAL" or upsert.drop_out_of_order_record or upsert.out_of_order_record_column is not None
    ):
        return
    settings = registry.cluster_config()
    if CONSUMING_SEGMENT_CONSISTENCY.name not in settings and config.replication < 2:
        return
    if CONSUMING_SEGMENT_CONSISTENCY.text(settings).strip().upper() == _RESTRICTED:
        raise ConflictError(
            f"Table {config.typed_name} merges rows with earlier ones, which {action} may undo on replicas that are "
            f"ahead; to allow it regardless, set {CONSUMING_SEGMENT_CONSISTENCY.name} to PROTECTED or UNSAFE by "
            f"POST /cluster/configs, it is {_RESTRICTED}"
        )
