"""The effective settings of a table with primary keys, read once from its config and schema."""

from dataclasses import dataclass

from gamay.model.rules.upsert import GENERATIONS, TTL_REMOVAL, is_time_text
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.ingestion import DedupConfig, UpsertConfig
from gamay.model.table.table_config import TableConfig
from gamay.model.table.upsert_defaults import DEFAULTS, ServerDefaults
from gamay.upsert.config.parallel import policy_of
from gamay.upsert.index.comparing import ComparisonColumns
from gamay.upsert.index.keys import KeyEncoder


@dataclass(frozen=True)
class UpsertSettings:
    """`upsertConfig`, resolved. ttl, deleted_ttl: in units of the comparison column, 0 for none.
    in_generations: keys beyond the TTL are dropped by generation, not at commits. keeps_deleted: a deleted key is kept
    until it has rows in only one segment.
    """

    config: UpsertConfig
    schema: Schema
    encoder: KeyEncoder
    comparison: ComparisonColumns
    is_partial: bool
    delete_column: FieldSpec | None
    out_of_order_column: str | None
    drop_out_of_order: bool
    skip_late: bool
    ttl: float
    deleted_ttl: float
    in_generations: bool
    keeps_deleted: bool
    snapshot: bool
    preload: bool
    sorted_column: str | None
    parallel_policy: str
    manager: str

    @property
    def signature(self) -> str:
        """The settings that stored keys and comparison values depend on."""
        names = [
            [f"{spec.name} {spec.data_type.value} {spec.default_null_value!r}{_text_format(spec)}" for spec in fields]
            for fields in (self.encoder.fields, self.comparison.fields)
        ]
        return f"{self.encoder.function} {names}"

    @property
    def depends(self) -> bool:
        """Whether the outcome of a row depends on earlier rows."""
        return self.is_partial or self.drop_out_of_order or self.out_of_order_column is not None

    @property
    def forgets(self) -> bool:
        """Whether keys expire by the watermark."""
        return self.ttl > 0 or self.deleted_ttl > 0

    @property
    def remembers(self) -> bool:
        """Whether the rows replaced in a FULL table matter, although each row is complete.

        They do if keys expire by the watermark, or if rows inherit values of other comparison columns.
        """
        return self.forgets or len(self.comparison.fields) > 1

    @property
    def takes_over(self) -> bool:
        """Whether a row inherits values from the row that it replaces; with several comparison columns, those of the
        others."""
        return self.depends or len(self.comparison.fields) > 1

    @classmethod
    def of(cls, table_config: TableConfig, schema: Schema, defaults: ServerDefaults = DEFAULTS) -> "UpsertSettings | None":
        """Return the settings of a table, None if its rows do not replace each other."""
        config = table_config.active_upsert
        if config is None:
            return None
        names = config.comparison_columns or tuple(filter(None, [table_config.time_column]))
        snapshot = _enabled(config.snapshot, defaults.snapshot)
        depends = (
            config.mode == "PARTIAL" or config.drop_out_of_order_record or config.out_of_order_record_column is not None
        )
        allowed = config.mode == "PARTIAL" and (
            config.allow_partial_upsert_consumption_during_commit or defaults.allow_during_commit
        )
        # with a TTL, the state stored between two segments must be that at the first row of the second
        forgets = config.metadata_ttl > 0 or config.deleted_keys_ttl > 0
        return cls(
            config=config,
            schema=schema,
            encoder=KeyEncoder.of(schema, config.hash_function),
            comparison=ComparisonColumns(tuple(schema.field(name) for name in names)),
            is_partial=config.mode == "PARTIAL",
            delete_column=None if config.delete_record_column is None else schema.field(config.delete_record_column),
            out_of_order_column=config.out_of_order_record_column,
            drop_out_of_order=config.drop_out_of_order_record
            or (config.mode == "PARTIAL" and config.out_of_order_record_column is None),
            skip_late=config.is_skip_late_event and config.metadata_ttl > 0,
            ttl=float(config.metadata_ttl),
            deleted_ttl=float(config.deleted_keys_ttl),
            in_generations=config.metadata_ttl > 0 and config.metadata_manager_configs.get(TTL_REMOVAL) == GENERATIONS,
            keeps_deleted=config.enable_deleted_keys_compaction_consistency and snapshot and config.deleted_keys_ttl > 0,
            snapshot=snapshot,
            preload=snapshot and defaults.preload_threads > 0 and _enabled(config.preload, defaults.preload),
            sorted_column=table_config.sorted_column,
            parallel_policy=policy_of(table_config, depends=depends or forgets, allowed=allowed),
            manager=config.metadata_manager_class or defaults.manager,
        )


@dataclass(frozen=True)
class DedupSettings:
    """`dedupConfig`, resolved. time: the column for the TTL; None without TTL. ignores_tiers: whether keys of
    segments that were moved to a tier are ignored.
    """

    config: DedupConfig
    encoder: KeyEncoder
    time: ComparisonColumns | None
    ttl: float
    ignores_tiers: bool
    parallel_policy: str
    manager: str

    @classmethod
    def of(cls, table_config: TableConfig, schema: Schema, defaults: ServerDefaults = DEFAULTS) -> "DedupSettings | None":
        """Return the settings of a table, None if it has no deduplication."""
        config = table_config.active_dedup
        if config is None:
            return None
        name = config.dedup_time_column or table_config.time_column
        time = None if config.metadata_ttl <= 0 or name is None else ComparisonColumns((schema.field(name),))
        allowed = config.allow_dedup_consumption_during_commit or defaults.allow_dedup_during_commit
        return cls(
            config,
            KeyEncoder.of(schema, config.hash_function),
            time,
            float(config.metadata_ttl),
            _enabled(config.ignore_non_default_tiers, defaults.dedup_ignores_tiers),
            policy_of(table_config, depends=True, allowed=allowed),
            config.metadata_manager_class or defaults.dedup_manager,
        )


def _text_format(spec: FieldSpec) -> str:
    """Return the format of times in a text column."""
    return f" {spec.format.text}" if is_time_text(spec) and spec.format is not None else ""


def _enabled(choice: str, default: bool) -> bool:
    return default if choice == "DEFAULT" else choice == "ENABLE"
