"""Whether segments may be committed and loaded again at will, by the consistency mode of consuming segments."""

from gamay.base.errors import ConflictError
from gamay.cluster.records.registry import Registry
from gamay.model.cluster_settings import CONSUMING_SEGMENT_CONSISTENCY
from gamay.model.table.table_config import TableConfig

_RESTRICTED = "RESTRICTED"


def refuse_restricted(registry: Registry, config: TableConfig, action: str) -> None:
    """Raise ConflictError when the mode forbids an action on a table.

    The mode concerns tables whose rows depend on those before them. Unless it is set it is RESTRICTED for tables of
    several replicas: with one there is nobody who could be ahead. action: the subject of the sentence.
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
            f"Table {config.typed_name} merges rows with those before them, which {action} may undo on replicas that are "
            f"ahead; to allow it nevertheless, set {CONSUMING_SEGMENT_CONSISTENCY.name} to PROTECTED or UNSAFE by "
            f"POST /cluster/configs, it is {_RESTRICTED}"
        )
