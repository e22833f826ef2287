"""`SegmentGenerationAndPushTask`: segments of the files in the folders that a table's `batchConfigMaps` name.

An APPEND table skips files from which a segment was already built; a REFRESH table ingests all files each time. Users
may ingest other files once, with their own settings.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import orjson

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.records import SegmentRecord
from gamay.controller.tasks.input_files import InputFile, named_files
from gamay.controller.tasks.spi import GeneratorInput, TaskPlan
from gamay.ingest.job.segment_names import segment_name_generator
from gamay.ingest.read.readers import data_formats, format_of, format_of_class
from gamay.model.batch_settings import BatchSettings, is_batch_key, nearest_batch_key
from gamay.model.rules.segment_generation import BATCH_MAPS
from gamay.model.table.table_name import TableType
from gamay.model.task_settings import COMMON_KEYS, INPUT_FILE, SEGMENT_GENERATION, known_task_keys
from gamay.storage.files import local_path

_GIVEN = "taskConfigs"


class SegmentGenerationGenerator:
    """Generator of a subtask for each file, or of a single one if `consistentDataPush` makes them visible together."""

    task_type = SEGMENT_GENERATION
    keys = known_task_keys(SEGMENT_GENERATION)
    max_tasks = 0

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return the files to ingest, by map and URI."""
        if wanted.config.table_type is not TableType.OFFLINE:
            raise InvalidConfigError(f"{SEGMENT_GENERATION} is for OFFLINE tables, which {wanted.table} is not")
        given = {key: text for key, text in wanted.given.items() if key not in COMMON_KEYS or key == "push.mode"}
        if wanted.is_adhoc and given:
            return TaskPlan(list(_asked_for(wanted, given)))
        batch = wanted.config.ingestion.batch
        maps = batch.batch_config_maps if batch is not None else ()
        if not maps:
            raise InvalidConfigError(f"{SEGMENT_GENERATION} finds no folder of files: {BATCH_MAPS} is empty")
        taken = _taken(wanted)
        subtasks: list[Mapping[str, str]] = []
        for position, one in enumerate(maps):
            where = f"{BATCH_MAPS}[{position}]"
            settings = BatchSettings.of(one, where)
            for file in _files(wanted, settings, where):
                if file.uri not in taken:
                    taken.add(file.uri)
                    subtasks.append(_config(wanted, one, file, _format_of(settings, file), len(subtasks)))
        if batch is not None and batch.consistent_data_push and wanted.config.replaces_all:
            return TaskPlan([] if wanted.working or not subtasks else [_together(wanted, subtasks)])
        return TaskPlan(subtasks)


def _asked_for(wanted: GeneratorInput, given: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yield the subtasks of a user's one-time request: all files, whether they were ingested before or not."""
    for key in given:
        if not is_batch_key(key):
            raise InvalidConfigError(f"unknown key '{key}' in {_GIVEN}.{nearest_batch_key(key)}")
    settings = BatchSettings.of(given, _GIVEN)
    files = _files(wanted, settings, _GIVEN)
    data_format = _format_of(settings, files[0]) if files else ""
    run = wanted.ids.new()
    fixed = "segmentNameGenerator.type" not in given
    for number, file in enumerate(files):
        name = {"segmentNameGenerator.type": "fixed", "segment.name": f"{wanted.table}_{run}_{number}"} if fixed else {}
        yield {**_config(wanted, {**given, **name}, file, data_format, number), "uuid": f"{run}_{number}"}


def _files(wanted: GeneratorInput, settings: BatchSettings, where: str) -> list[InputFile]:
    """List the files of a map, after checking that segments can be built from them."""
    if settings.output_uri is not None:
        if _is_local(settings.output_uri):
            raise InvalidConfigError(
                f"{where}.outputDirURI is '{settings.output_uri}', a folder of one machine; leave it out, and segments are "
                "sent to the controller, or give a URI that controllers and servers reach"
            )
        wanted.fetchers.check_key(f"{where}.outputDirURI", settings.output_uri)
    schema = wanted.schema()
    segment_name_generator(settings.name_type, settings.name_configs, schema, wanted.config)
    return named_files(
        wanted.fetchers, f"{where}.inputDirURI", settings.input_uri, settings.include, settings.exclude
    )  # fmt: skip


def _is_local(uri: str) -> bool:
    try:
        return local_path(uri) is not None
    except ValueError:
        return False  # not a URI; the check of allowed URIs reports it


def _format_of(settings: BatchSettings, file: InputFile) -> str:
    data_format = settings.data_format or format_of_class(settings.reader_class) or format_of(file.uri)
    if data_format.lower() not in data_formats():
        raise InvalidConfigError(
            f"inputFormat '{data_format}' cannot be read; it must be one of {', '.join(data_formats())}"
        )
    return data_format


def _taken(wanted: GeneratorInput) -> set[str]:
    """Return the files to skip: those of unfinished subtasks and, for APPEND tables, those already in segments."""
    working: set[str] = set()
    for subtask in wanted.working:
        working |= set(inputs_of(subtask))
    if wanted.config.replaces_all:
        return working
    return working | files_in(_visible(wanted))


def _visible(wanted: GeneratorInput) -> Collection[SegmentRecord]:
    hidden = wanted.registry.get_lineage(wanted.table).hidden_segments()
    names = [name for name in wanted.registry.segment_names(wanted.table) if name not in hidden]
    return wanted.registry.get_segments(wanted.table, names).values()


def files_in(records: Collection[SegmentRecord]) -> set[str]:
    """Return the files from which segments were built, as far as recorded."""
    return {record.custom[INPUT_FILE] for record in records if INPUT_FILE in record.custom}


def inputs_of(subtask: Mapping[str, str]) -> Sequence[str]:
    """Return the files that a subtask ingests."""
    if "subtasks" in subtask:
        return [config[INPUT_FILE] for config in orjson.loads(subtask["subtasks"])]
    return [subtask[INPUT_FILE]]


def _config(
    wanted: GeneratorInput, given: Mapping[str, str], file: InputFile, data_format: str, number: int
) -> Mapping[str, str]:
    kept = {key: text for key, text in given.items() if is_batch_key(key)}
    return {
        **kept,
        "tableName": wanted.table,
        INPUT_FILE: file.uri,
        "openedURI": file.opened,
        "inputFormat": data_format,
        "sequenceId": str(number),
    }


def _together(wanted: GeneratorInput, subtasks: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Return one subtask that executes others, so that their segments become visible together."""
    return {"tableName": wanted.table, "subtasks": orjson.dumps(list(subtasks)).decode()}


GENERATOR = SegmentGenerationGenerator()
