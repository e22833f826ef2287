"""`SegmentGenerationAndPushTask`: builds a segment from a file, and pushes it with a note of the file.

A later attempt finds what an earlier one pushed: its segment has the same name, or names the subtask.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from gamay.base.errors import InvalidConfigError
from gamay.client.controller import ControllerClient
from gamay.cluster.records.records import SegmentRecord
from gamay.ingest.job.spec import PushJobSpec
from gamay.minion.context import MinionAccess, TaskContext
from gamay.minion.file_build import FileBuild
from gamay.minion.replacing import replacement
from gamay.minion.side_by_side import side_by_side
from gamay.minion.work import Rebuilt
from gamay.model.batch_settings import BatchSettings
from gamay.model.table.stored import stored_table_config
from gamay.model.table.table_name import raw_table_name
from gamay.model.task_settings import INPUT_FILE, SEGMENT_GENERATION
from gamay.spark.building.archive_push import Destination, segment_name_of
from gamay.spark.building.push import push_segments
from gamay.spark.building.segment_task import FileTask
from gamay.spark.building.target import SegmentTarget

_SUBTASK = f"{SEGMENT_GENERATION}.subtask"


@dataclass(frozen=True, slots=True)
class _Destination(Destination):
    """The target table, with this minion's access to the controller."""

    way: MinionAccess | None = None

    def client(self, controller: str) -> ControllerClient:
        assert self.way is not None
        return self.way.controller()


def run(task: TaskContext) -> str:
    """Execute the subtask: one file, or several that become visible together."""
    if "subtasks" in task.config:
        return _run_together(task, orjson.loads(task.config["subtasks"]))
    told, uri = task.config, task.config[INPUT_FILE]
    replaces = _replaces_all(task)
    visible = _visible(task) if replaces or _is_repeated(task) else []
    for record in visible:
        if record.custom.get(_SUBTASK) == task.leased.subtask.name or _is_taken(record, told, replaces):
            return f"file {uri} is already in segment {record.name}"
    settings = BatchSettings.of(told, SEGMENT_GENERATION)
    old = [record.name for record in visible if replaces and record.custom.get(INPUT_FILE) == uri]
    built = task.builder(_work(task, told, settings, is_beside_others=bool(old)), task.folder, task.progress)
    if not built.archive:
        return _empty(settings, uri)
    name = segment_name_of(built.archive)
    _push(task, [(settings, built.archive)], {name: _custom(task, uri)}, old or None)
    return f"segment {name} has {built.rows} rows of {uri}"


def _run_together(task: TaskContext, files: Sequence[Mapping[str, str]]) -> str:
    """Atomically replace all segments of the table by those of all files."""
    if any(record.custom.get(_SUBTASK) == task.leased.subtask.name for record in _visible(task)):
        return "the table already has the segments of these files"
    settings = [BatchSettings.of(told, SEGMENT_GENERATION) for told in files]

    def build(number: int) -> Rebuilt:
        folder = task.folder / str(number)
        folder.mkdir()
        built = task.builder(_work(task, files[number], settings[number], is_beside_others=True), folder, task.progress)
        if not built.archive:
            _empty(settings[number], files[number][INPUT_FILE])
        return built

    found = side_by_side(build, range(len(files)), task.works_at_once)
    pushes = [(how, one.archive) for how, one in zip(settings, found, strict=True) if one.archive]
    if not pushes:
        return f"no row of {len(files)} files is kept: the table is unchanged"
    custom = {
        segment_name_of(one.archive): _custom(task, told[INPUT_FILE])
        for one, told in zip(found, files, strict=True)
        if one.archive
    }
    _push(task, pushes, custom, [record.name for record in _visible(task)], of_table=True)
    return f"{len(pushes)} segments have {sum(one.rows for one in found)} rows of {len(files)} files"


def _is_taken(record: SegmentRecord, told: Mapping[str, str], replaces: bool) -> bool:
    """Whether a segment already has the rows of a file to append; False for a user's explicit request."""
    return "uuid" not in told and not replaces and record.custom.get(INPUT_FILE) == told[INPUT_FILE]


def _is_repeated(task: TaskContext) -> bool:
    """Whether another attempt may have pushed something."""
    return task.leased.subtask.attempts > 1 or task.leased.subtask.losses > 0


def _replaces_all(task: TaskContext) -> bool:
    return stored_table_config(orjson.loads(task.documents()[1])).replaces_all


def _visible(task: TaskContext) -> list[SegmentRecord]:
    registry = task.access.registry
    hidden = registry.get_lineage(task.table).hidden_segments()
    names = [name for name in registry.segment_names(task.table) if name not in hidden]
    return list(registry.get_segments(task.table, names).values())


def _work(task: TaskContext, told: Mapping[str, str], settings: BatchSettings, *, is_beside_others: bool) -> FileBuild:
    """Return the work that builds the segment of a file.

    is_beside_others: the segment coexists with those that it replaces, and with those of failed attempts, so its name
    is unique to this attempt. Other names are the same for all attempts.
    """
    schema_json, config_json = task.documents()
    subtask = task.leased.subtask
    attempt = f" {subtask.name} {subtask.started_ms} {subtask.lease}" if is_beside_others else ""
    known = f"{task.table} {told[INPUT_FILE]}{attempt}"
    target = SegmentTarget(
        schema_json,
        config_json,
        settings.output_uri or "",
        settings.name_type,
        {**settings.name_configs, **({} if settings.name_type == "fixed" else {"append.uuid.to.segment.name": "true"})},
        overwrite=settings.overwrite,
        metadata_archive=settings.push_mode == "metadata",
        storage=task.access.storage,
        uuid=told.get("uuid") or str(uuid.uuid5(uuid.NAMESPACE_URL, known)),
    )
    file = FileTask(told[INPUT_FILE], int(told["sequenceId"]), "", told["inputFormat"], settings.reader_config)
    return FileBuild(file, told["openedURI"], target, task.access.storage)


def _empty(settings: BatchSettings, uri: str) -> str:
    """Return the sentence about a file without rows. Raises InvalidConfigError if that counts as a failure."""
    if settings.fail_on_empty:
        raise InvalidConfigError(f"no row of {uri} is kept, and fail.on.empty.segment is set")
    return f"no row of {uri} is kept: no segment is built"


def _custom(task: TaskContext, uri: str) -> Mapping[str, str]:
    return {
        INPUT_FILE: uri,
        _SUBTASK: task.leased.subtask.name,
        f"{SEGMENT_GENERATION}.time": str(task.clock.now_ms()),
    }


def _push(
    task: TaskContext,
    pushes: Sequence[tuple[BatchSettings, str]],
    custom: Mapping[str, Mapping[str, str]],
    old: Sequence[str] | None,
    *,
    of_table: bool = False,
) -> None:
    """Push archives by the settings of their folders.

    custom: entries of the segments' records, by segment. old: segments that they replace atomically; None: each becomes
    visible when pushed. of_table: see `replacement`.
    """
    table = raw_table_name(task.table)
    destination = _Destination(
        (task.access.controller_url(),), table, storage=task.access.storage, custom=custom, way=task.access
    )  # fmt: skip

    def push() -> None:
        for settings, archive in pushes:
            task.progress.step(f"pushing segment {segment_name_of(archive)}")
            task.confirm()
            options = PushJobSpec(
                push_attempts=settings.push_attempts,
                push_retry_interval_ms=settings.retry_ms,
                segment_uri_prefix=settings.uri_prefix,
                segment_uri_suffix=settings.uri_suffix,
            )
            push_segments([archive], destination, mode=settings.push_mode, options=options)

    if old is None:
        push()
        return
    with replacement(task, task.table, old, list(custom), of_table=of_table):
        push()
