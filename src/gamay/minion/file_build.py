"""Building a segment from an input file: fetched, read by the table's ingestion config, built as by the job runner."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from gamay.base.errors import RecordError
from gamay.minion.work import Rebuilt
from gamay.spark.building.report import Outcome
from gamay.spark.building.segment_task import FileTask, build_segment
from gamay.spark.building.target import SegmentTarget
from gamay.storage.fetchers import Fetchers
from gamay.storage.files import local_path
from gamay.storage.settings import StorageSettings


@dataclass(frozen=True, slots=True)
class FileBuild:
    """A work that builds a segment from a file.

    opened: the URI that is fetched. target: of the segment; without an output folder, it stays where it was built.
    storage: the settings of file systems.
    """

    file: FileTask
    opened: str
    target: SegmentTarget
    storage: StorageSettings = field(repr=False)

    @property
    def output(self) -> str:
        """Its name in messages."""
        return f"of file {self.file.uri}"

    def build(self, folder: Path, step: Callable[[str], None], tls: ssl.SSLContext | None) -> Rebuilt:
        """See `Work`. Raises RecordError for a file that cannot be read, and as `Fetchers.fetch_recorded`."""
        uri = self.file.uri
        step(f"fetching {uri}")
        inputs, outputs = folder / "in", folder / "out"
        for made in (inputs, outputs):
            made.mkdir(parents=True)
        copy = inputs / (urlsplit(uri).path.rpartition("/")[2] or "file")
        Fetchers(self.storage, tls).fetch_recorded(self.opened, copy)
        step(f"building the segment {self.output}")
        target = self.target if self.target.output_dir else replace(self.target, output_dir=str(outputs))
        report = build_segment((replace(self.file, copy=str(copy)),), target)
        copy.unlink()
        if report.outcome == Outcome.FAILED.value:
            raise RecordError(report.message.replace(str(copy), uri))
        if report.outcome == Outcome.EMPTY.value:
            return Rebuilt("", -1, 0, report.rows_read)
        path = local_path(report.uri)
        return Rebuilt(report.uri if path is None else str(path), -1, report.num_docs, report.rows_read)
