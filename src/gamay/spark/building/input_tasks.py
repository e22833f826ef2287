"""Assignment of files, or parts of files, to tasks: large files are split, small ones share a task."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

from gamay.base.errors import GamayError
from gamay.ingest.read.parts import ByteRange
from gamay.ingest.read.readers import has_record_lines, split
from gamay.spark.building.execute import run_tasks
from gamay.spark.building.progress import JobProgress
from gamay.spark.building.segment_task import FileTask
from gamay.storage.files import size_of

Task: TypeAlias = tuple[FileTask, ...]
# independent of the cluster: samples, and so the segments of a sorting job, depend on the tasks
_SPLIT_BYTES, _PACK_BYTES = 64 << 20, 8 << 20
_LOOKS_AT_ONCE = 16


def input_tasks(spark: Any, files: Sequence[FileTask], bytes_max: int | None, progress: JobProgress) -> list[Task]:
    """Return the tasks of a job. bytes_max: approximate input size of each; None uses many cores.

    Files of one task are in the same folder. CSV files with quotes are checked beforehand, by executors.
    """
    with ThreadPoolExecutor(_LOOKS_AT_ONCE, "gamay-sizes") as pool:
        sizes = list(pool.map(_size, files))
        parts = list(pool.map(lambda file, size: _parts(file, size, bytes_max or _SPLIT_BYTES), files, sizes))
    candidates = [part for of_file in parts if len(of_file) > 1 for part in of_file]
    irregular = _irregular(spark, candidates, progress)
    pieces: list[tuple[FileTask, int]] = []
    for file, size, of_file in zip(files, sizes, parts, strict=True):
        if len(of_file) == 1 or file.uri in irregular:
            pieces.append((file, size))
        else:
            pieces += [(piece, piece.part.end - piece.part.start) for piece in of_file if piece.part is not None]
    return list(packed(pieces, bytes_max or _PACK_BYTES))


def packed(pieces: Sequence[tuple[FileTask, int]], bytes_max: int) -> Iterator[Task]:
    """Combine pieces of input, given with their bytes, to tasks of at most `bytes_max`.

    Pieces of different folders, and parts of one file, are never combined.
    """
    folders: dict[str, list[tuple[FileTask, int]]] = {}
    for piece, size in pieces:
        folders.setdefault(piece.sub_path, []).append((piece, size))
    for in_folder in folders.values():
        task: list[FileTask] = []
        left = bytes_max
        for piece, size in in_folder:
            if task and (size > left or piece.part is not None):
                yield tuple(task)
                task, left = [], bytes_max
            task.append(piece)
            left = 0 if piece.part is not None else left - size
        yield tuple(task)


def numbered(tasks: Sequence[Task], group_of: Callable[[FileTask], str]) -> list[Task]:
    """Return tasks whose segments have sequence ids from 0 in each of the groups."""
    seen: dict[str, int] = {}
    result = []
    for first, *others in tasks:
        group = group_of(first)
        number = seen[group] = seen.get(group, -1) + 1
        result.append((replace(first, sequence_id=number), *others))
    return result


def _size(file: FileTask) -> int:
    return size_of(file.uri) or 0


def _parts(file: FileTask, size: int, bytes_max: int) -> list[FileTask]:
    try:
        found = split(file.uri, file.data_format, file.reader_config, size, bytes_max)
    except GamayError:  # the task that reads the file reports it
        return [file]
    return [file] if len(found) == 1 else [replace(file, part=part) for part in found]


def _irregular(spark: Any, parts: Sequence[FileTask], progress: JobProgress) -> set[str]:
    """Return the files with parts whose lines may not all be records."""

    def look(file: FileTask) -> str:
        assert isinstance(file.part, ByteRange)
        is_regular = has_record_lines(file.uri, file.data_format, file.reader_config, file.part)
        return "" if is_regular else file.uri

    quoted = [part for part in parts if part.data_format.lower() == "csv"]
    return set(run_tasks(spark, quoted, look, "looking through CSV files", progress)) - {""}
