"""Rules for `ingestionConfig`; each yields a sentence for every violation."""

from collections.abc import Collection, Iterator

from gamay.base.errors import GamayError, InvalidConfigError, nearest
from gamay.model.rules.subject import TableRule, TableSubject, duplicates, missing_column
from gamay.model.table.rollup import parse_rollup, rollup_problems
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.types import FieldRole

_ENRICHERS = ("generateColumn", "clpEnricher")
_BATCH_CHOICES = {
    "inputFormat": (
        "AVRO", "GZIPPED_AVRO", "CSV", "JSON", "PINOT", "THRIFT", "PARQUET", "ORC", "PROTO", "PROTOBUF", "ARROW", "BSON",
        "OTHER",
    ),
    "push.mode": ("TAR", "URI", "METADATA"),
    "segmentNameGenerator.type": ("simple", "normalizedDate", "fixed", "inputFile", "uploadedRealtime"),
}  # fmt: skip


def _batch(subject: TableSubject) -> Iterator[str]:
    batch = subject.config.ingestion.batch
    is_refreshed = subject.config.replaces_all or (batch is not None and batch.segment_ingestion_type == "REFRESH")
    if batch is not None and batch.consistent_data_push and not is_refreshed:
        yield "batchIngestionConfig.consistentDataPush needs segmentIngestionType REFRESH: appended data replaces nothing"
    for position, properties in enumerate(batch.batch_config_maps if batch is not None else ()):
        for key, accepted in _BATCH_CHOICES.items():
            value = properties.get(key)
            if value and value.lower() not in {name.lower() for name in accepted}:
                yield (
                    f"batchIngestionConfig.batchConfigMaps[{position}] has {key} '{value}'; "
                    f"it must be one of {', '.join(accepted)}.{nearest(value, accepted)}"
                )


def _stream(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    stream, older = config.ingestion.stream, config.indexing.stream_configs
    if stream is not None and not stream.stream_config_maps:
        yield "ingestionConfig.streamIngestionConfig.streamConfigMaps is empty; give one map for each topic"
    if stream is not None and older:
        yield "streamConfigMaps and tableIndexConfig.streamConfigs exclude each other; keep the former"
    if config.table_type is TableType.REALTIME and stream is None and not older:
        yield "a REALTIME table needs ingestionConfig.streamIngestionConfig.streamConfigMaps"
    if stream is not None and stream.pauseless_consumption_enabled:
        yield from _pauseless(config, len(stream.stream_config_maps))


def _pauseless(config: TableConfig, topics: int) -> Iterator[str]:
    """Check pauseless consumption: until a segment is in the deep store, others get it from the servers that built it."""
    if topics > 1:
        yield f"pauselessConsumptionEnabled needs one topic; streamConfigMaps has {topics}"
    if config.replication > 1 and config.segments.peer_segment_download_scheme is None:
        yield (
            "pauselessConsumptionEnabled with more than one replica needs segmentsConfig.peerSegmentDownloadScheme, http or "
            "https: servers fetch a segment from each other while the deep store does not have it"
        )


def _sources(subject: TableSubject) -> Iterator[str]:
    ingestion = subject.config.ingestion
    for name in duplicates(s.name for s in ingestion.source_fields):
        yield f"ingestionConfig.sourceFieldConfigs has the field '{name}' more than once"
    for enrichment in ingestion.enrichments:
        if enrichment.enricher_type not in _ENRICHERS:
            yield (
                f"ingestionConfig.enrichmentConfigs has the enricherType '{enrichment.enricher_type}'; "
                f"it must be one of {', '.join(_ENRICHERS)}.{nearest(enrichment.enricher_type, _ENRICHERS)}"
            )
    for prefix in ingestion.complex_type.prefixes_to_rename if ingestion.complex_type else ():
        for column in subject.schema.column_names:
            if column.startswith(prefix):
                yield f"complexTypeConfig.prefixesToRename has '{prefix}', with which the column '{column}' begins"


def _transforms(subject: TableSubject) -> Iterator[str]:
    transforms = subject.config.ingestion.transforms
    for name in duplicates(t.column_name for t in transforms):
        yield f"ingestionConfig.transformConfigs has the column '{name}' more than once"
    if subject.columns_of is None:
        return
    arguments: dict[str, Collection[str]] = {}
    for transform in transforms:
        try:
            arguments[transform.column_name] = subject.columns_of(transform.transform_function)
        except GamayError as error:
            yield f"the transformFunction of '{transform.column_name}' in ingestionConfig is not an expression: {error}"
            arguments[transform.column_name] = ()
    read_later = {column for read in arguments.values() for column in read}
    for aggregation in subject.config.ingestion.aggregations:
        read_later.update(_columns_or_none(subject, aggregation.aggregation_function))
    for name, read in arguments.items():
        if name in read:
            yield (
                f"the transformFunction of '{name}' in ingestionConfig reads the column itself; give the input field "
                "another name"
            )
        if name not in subject.schema and name not in read_later:
            hint = nearest(name, subject.schema.column_names)
            yield (
                f"ingestionConfig.transformConfigs computes '{name}', which is not a column of the schema and which "
                f"nothing reads.{hint}"
            )
    yield from _cycles(arguments)
    yield from _volatile(subject)


def _volatile(subject: TableSubject) -> Iterator[str]:
    """Check for volatile functions: replicas and restarts read the rows of a stream again and must get the same values."""
    if subject.config.table_type is not TableType.REALTIME or subject.volatile_in is None:
        return
    known = subject.stored.ingestion.transforms if subject.stored else ()
    for transform in subject.config.ingestion.transforms:
        try:
            volatile = () if transform in known else subject.volatile_in(transform.transform_function)
        except GamayError:
            continue  # `_transforms` reports it
        if volatile:
            yield (
                f"the transformFunction of '{transform.column_name}' in ingestionConfig calls {', '.join(volatile)}, which "
                "returns a different value on every replica; let the producer of the stream write it"
            )


def _columns_or_none(subject: TableSubject, text: str) -> Collection[str]:
    try:
        return subject.columns_of(text) if subject.columns_of else ()
    except GamayError:
        return ()  # `_aggregations` reports it


def _cycles(arguments: dict[str, Collection[str]]) -> Iterator[str]:
    """Yield a sentence if there is no order of evaluation, naming the columns that depend on each other."""
    waiting = {name: (set(read) & arguments.keys()) - {name} for name, read in arguments.items()}
    while ready := [name for name, needs in waiting.items() if not needs]:
        for name in ready:
            del waiting[name]
        for needs in waiting.values():
            needs.difference_update(ready)
    if waiting:
        yield f"ingestionConfig.transformConfigs depend on each other in a cycle: {', '.join(sorted(waiting))}"


def _filter(subject: TableSubject) -> Iterator[str]:
    text = subject.config.ingestion.filter_function
    if text is not None and subject.columns_of is not None:
        try:
            subject.columns_of(text)
        except GamayError as error:
            yield f"ingestionConfig.filterConfig.filterFunction is not an expression: {error}"


def _aggregations(subject: TableSubject) -> Iterator[str]:
    config, schema = subject.config, subject.schema
    aggregations, every_metric = config.ingestion.aggregations, config.indexing.aggregate_metrics
    if not aggregations and not every_metric:
        return
    if aggregations and every_metric:
        yield "ingestionConfig.aggregationConfigs and tableIndexConfig.aggregateMetrics exclude each other"
    if config.has_keys:
        yield "metrics cannot be aggregated during ingestion with upsertConfig or dedupConfig"
    metrics = [f.name for f in schema.fields if f.role is FieldRole.METRIC]
    yield from rollup_problems(schema, config)
    covered = [a.column_name for a in aggregations]
    for name in duplicates(covered):
        yield f"ingestionConfig.aggregationConfigs has the column '{name}' more than once"
    for aggregation in aggregations:
        yield from _aggregation(subject, aggregation.column_name, aggregation.aggregation_function)
    for name in metrics if aggregations else ():
        if name not in covered:
            yield f"ingestionConfig.aggregationConfigs omits the metric '{name}'; every metric must be covered"


def _aggregation(subject: TableSubject, column: str, function: str) -> Iterator[str]:
    missing = missing_column(subject.schema, column, "ingestionConfig.aggregationConfigs")
    if missing:
        yield missing
    elif subject.schema.field(column).role is not FieldRole.METRIC:
        yield f"ingestionConfig.aggregationConfigs names '{column}', which is not a metric"
    if subject.columns_of is not None:
        try:
            subject.columns_of(function)
        except GamayError as error:
            yield f"the aggregationFunction of '{column}' is not an expression: {error}"
            return
    try:
        parse_rollup(column, function)
    except InvalidConfigError as error:
        yield str(error)


INGESTION_RULES: tuple[TableRule, ...] = (_batch, _stream, _sources, _transforms, _filter, _aggregations)
