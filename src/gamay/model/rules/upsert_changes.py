"""Config changes of tables with primary keys: deprecated keys and their successors, and keys that must not change."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gamay.base.errors import InvalidConfigError
from gamay.model.index.indexing import PartitionConfig
from gamay.model.schema.datetime_format import DateTimeKind
from gamay.model.schema.schema import Schema
from gamay.model.table.ingestion import DedupConfig, UpsertConfig
from gamay.model.table.table_config import TableConfig
from gamay.model.units import TimeUnit

_DEPRECATED = {
    "comparison_column": "upsertConfig.comparisonColumn is deprecated; it is stored as comparisonColumns",
    "enable_snapshot": "upsertConfig.enableSnapshot is deprecated; it is stored as snapshot, false as the server's default",
    "enable_preload": "upsertConfig.enablePreload is deprecated; it is stored as preload, false as the server's default",
    "ttl_value": "upsertConfig.TtlUnit and TtlValue are deprecated; they are stored as metadataTTL",
}

_NO_UPSERT = UpsertConfig(mode="NONE")


def deprecated_keys(config: TableConfig) -> list[str]:
    """Return a sentence for each deprecated key of upsertConfig and dedupConfig that `migrated` replaces."""
    found = [text for name, text in _DEPRECATED.items() if config.upsert and getattr(config.upsert, name) is not None]
    if config.dedup is not None and config.dedup.enable_preload is not None:
        found.append("dedupConfig.enablePreload is deprecated; it is stored as preload, false as the server's default")
    return found


def migrated(config: TableConfig, schema: Schema) -> TableConfig:
    """Return the config with current keys instead of deprecated ones.

    Raises InvalidConfigError if deprecated and current keys contradict each other, and for a TTL that cannot be converted
    to the unit of the comparison column.
    """
    upsert, dedup = config.upsert, config.dedup
    if upsert is not None:
        if upsert.comparison_column is not None and upsert.comparison_columns not in ((), (upsert.comparison_column,)):
            raise InvalidConfigError(
                "upsertConfig.comparisonColumn and comparisonColumns contradict each other; keep the latter"
            )
        named = upsert.comparison_columns or tuple(filter(None, [upsert.comparison_column]))
        upsert = replace(
            upsert,
            comparison_columns=named,
            comparison_column=None,
            snapshot=_enablement(upsert.snapshot, upsert.enable_snapshot),
            enable_snapshot=None,
            preload=_enablement(upsert.preload, upsert.enable_preload),
            enable_preload=None,
            metadata_ttl=_ttl(config, upsert, schema),
            ttl_unit=None,
            ttl_value=None,
        )
    if dedup is not None:
        dedup = replace(dedup, preload=_enablement(dedup.preload, dedup.enable_preload), enable_preload=None)
    return replace(config, upsert=upsert, dedup=dedup)


def _enablement(choice: str, older: bool | None) -> str:
    return "ENABLE" if older and choice == "DEFAULT" else choice


def _ttl(config: TableConfig, upsert: UpsertConfig, schema: Schema) -> float:
    """Return metadataTTL, or TtlValue in the unit of the comparison column, which must declare it."""
    if upsert.ttl_unit is None and upsert.ttl_value is None:
        return upsert.metadata_ttl
    if upsert.ttl_unit is None or upsert.ttl_value is None:
        raise InvalidConfigError("upsertConfig.TtlUnit and TtlValue belong together; use metadataTTL instead")
    names = upsert.comparison_columns or (upsert.comparison_column or config.time_column or "",)
    form = schema.field(names[0]).format if names[0] in schema else None
    if form is None or form.kind is DateTimeKind.SIMPLE_DATE_FORMAT:
        raise InvalidConfigError(
            f"upsertConfig.TtlUnit cannot be converted: the comparison column '{names[0]}' does not declare the unit of its "
            "values; give metadataTTL in that unit"
        )
    try:
        ttl = upsert.ttl_value * TimeUnit.parse(upsert.ttl_unit).value / (form.unit.value * form.size)
    except InvalidConfigError as error:
        raise InvalidConfigError(f"upsertConfig.TtlUnit: {error}") from None
    if upsert.metadata_ttl not in (0, ttl):
        raise InvalidConfigError(
            f"upsertConfig.TtlUnit and TtlValue, which are a metadataTTL of {ttl:g}, contradict metadataTTL; keep the latter"
        )
    return ttl


def forbidden_changes(old: TableConfig, new: TableConfig) -> list[str]:
    """Return the keys that differ and must not, because stored rows were selected or merged by them.

    A table without `upsertConfig` has mode NONE. Adding or removing `dedupConfig` is allowed, as is adding a delete column:
    no stored row has deleted a key by it.
    """
    changed = list(_upsert_changes(old, new))
    if "deleteRecordColumn" in changed and old.upsert is not None and old.upsert.delete_record_column is None:
        changed.remove("deleteRecordColumn")
    if old.dedup is not None and new.dedup is not None:
        changed += _dedup_changes(old, new, old.dedup, new.dedup)
    if old.upsert is not None or old.dedup is not None:
        before, after = partition_columns(old), partition_columns(new)
        changed += [
            f"segmentPartitionConfig.{name}.numPartitions"
            for name, partition in before.items()
            if name in after and after[name].num_partitions != partition.num_partitions
        ]
    return changed


def followed_late(old: TableConfig, new: TableConfig) -> list[str]:
    """Return a sentence about the keys of upsertConfig that differ and that servers read only at startup."""
    changed = list(_upsert_changes(old, new))
    if not changed:
        return []
    return [
        f"{', '.join(changed)}: servers of an upsert table apply the change when restarted, and stored rows stay as "
        "they are; restart all of them, as replicas differ until then"
    ]


def partition_columns(config: TableConfig) -> Mapping[str, PartitionConfig]:
    """Return the partitioned columns of a table."""
    partition = config.indexing.segment_partition
    return {} if partition is None else partition.columns


def _upsert_changes(old: TableConfig, new: TableConfig) -> Iterator[str]:
    """Yield the keys that differ and have an effect in the mode of both tables."""
    before, after = old.upsert or _NO_UPSERT, new.upsert or _NO_UPSERT
    if before.mode != after.mode:
        yield "mode"
    if "NONE" in (before.mode, after.mode):
        return
    if before.hash_function != after.hash_function:
        yield "hashFunction"
    if (before.comparison_columns or (old.time_column,)) != (after.comparison_columns or (new.time_column,)):
        yield "comparisonColumns" if before.comparison_columns or after.comparison_columns else "timeColumnName"
    yield from _differing(
        ("dropOutOfOrderRecord", before.drop_out_of_order_record, after.drop_out_of_order_record),
        ("outOfOrderRecordColumn", before.out_of_order_record_column, after.out_of_order_record_column),
        ("deleteRecordColumn", before.delete_record_column, after.delete_record_column),
    )
    if before.mode == after.mode == "PARTIAL":
        yield from _differing(
            ("partialUpsertStrategies", before.partial_upsert_strategies, after.partial_upsert_strategies),
            ("defaultPartialUpsertStrategy", before.default_partial_upsert_strategy, after.default_partial_upsert_strategy),
            ("partialUpsertMergerClass", before.partial_upsert_merger_class, after.partial_upsert_merger_class),
        )


def _differing(*values: tuple[str, object, object]) -> Iterator[str]:
    return (key for key, before, after in values if before != after)


def _dedup_changes(old: TableConfig, new: TableConfig, before: DedupConfig, after: DedupConfig) -> Iterator[str]:
    if before.hash_function != after.hash_function:
        yield "hashFunction"
    if (before.dedup_time_column or old.time_column) != (after.dedup_time_column or new.time_column):
        yield "dedupTimeColumn" if before.dedup_time_column or after.dedup_time_column else "timeColumnName"
