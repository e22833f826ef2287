"""The parameters by which executors build the segments of one table."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from gamay.base.errors import ConflictError
from gamay.base.ids import RANDOM_IDS, FixedId
from gamay.ingest.job.segment_names import SegmentFacts, SegmentNameGenerator, segment_name_generator
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.encode.metadata import SegmentMetadata, rename_segment
from gamay.storage.archive import ZSTD_LEVEL_JOBS, pack
from gamay.storage.files import Access, put, size_of
from gamay.storage.filesystems import scheme_of
from gamay.storage.settings import StorageSettings

ARCHIVE_SUFFIX = ".tar.zst"
ARCHIVE = re.compile(r"(?P<name>[^/]+)(?P<suffix>\.tar\.zst|\.tar\.gz|\.tgz)$")
METADATA_SUFFIX = ".metadata.tar.gz"
PROVISIONAL_NAME = "segment"


@dataclass(frozen=True, slots=True)
class SegmentTarget:
    """The table, destination and naming of segments to build.

    schema_json, table_config_json: the documents, as text. name_type, name_configs: of the segment name generator.
    table_name: the default prefix of names, None for the typed table name. storage: settings of the output's file system.
    uuid: the one appended by `append.uuid.to.segment.name`; None: a new one.
    """

    schema_json: str
    table_config_json: str
    output_dir: str
    name_type: str | None = None
    name_configs: Mapping[str, str] = field(default_factory=dict)
    table_name: str | None = None
    overwrite: bool = False
    metadata_archive: bool = False
    storage: StorageSettings = field(default_factory=StorageSettings, repr=False)
    uuid: str | None = None

    @classmethod
    def of(cls, schema: Schema, table_config: TableConfig, output_dir: str) -> "SegmentTarget":
        """Return the target for a table, with default names."""
        return cls(json.dumps(schema.to_json()), json.dumps(table_config.to_json()), output_dir)

    def schema(self) -> Schema:
        """Return the schema; its columns are in the document's order, by role, on driver and executors alike."""
        return Schema.from_json(json.loads(self.schema_json)).value

    def table_config(self) -> TableConfig:
        """Return the table config."""
        return TableConfig.from_json(json.loads(self.table_config_json)).value

    def access(self) -> Access:
        """Return the access to the output's file system."""
        return Access(options=self.storage.options_of(scheme_of(self.output_dir)))

    def name_generator(self) -> SegmentNameGenerator:
        """Return the generator of segment names; raises InvalidConfigError."""
        return segment_name_generator(
            self.name_type,
            self.name_configs,
            self.schema(),
            self.table_config(),
            table_name=self.table_name,
            ids=RANDOM_IDS if self.uuid is None else FixedId(self.uuid),
        )


@dataclass(frozen=True, slots=True)
class Published:
    """An archive in the output folder. is_kept: whether it already existed and was kept unchanged."""

    name: str
    uri: str
    size_bytes: int
    is_kept: bool


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder of this process."""
    with tempfile.TemporaryDirectory(prefix="gamay-segment-") as folder:
        yield Path(folder)


def publish(
    folder: Path, target: SegmentTarget, generator: SegmentNameGenerator, facts: SegmentFacts, sub_path: str
) -> Published:
    """Name a built segment, pack it, and write the archive below the output folder, unless it exists and is to be kept.

    Raises InvalidConfigError for an invalid name.
    """
    name = generator.name(facts)
    named = rename_segment(folder, name)
    file_name = quote(name, safe="") + ARCHIVE_SUFFIX
    uri = "/".join(part for part in (target.output_dir.rstrip("/"), sub_path.strip("/"), file_name) if part)
    existing = None if target.overwrite else size_of(uri, target.access())
    if existing is not None:
        return Published(name, uri, existing, True)
    archive = pack(named, named.with_name(file_name), ZSTD_LEVEL_JOBS)
    size = archive.stat().st_size
    put(archive, uri, target.access())
    if target.metadata_archive:
        put(pack_metadata(named), uri.removesuffix(ARCHIVE_SUFFIX) + METADATA_SUFFIX, target.access())
    shutil.rmtree(named)
    archive.unlink()
    return Published(name, uri, size, False)


def pack_metadata(segment: Path) -> Path:
    """Return an archive next to the segment's folder that contains its `metadata.json` only."""
    folder = segment.with_name(f"{segment.name}.metadata") / segment.name
    folder.mkdir(parents=True)
    shutil.copyfile(segment / "metadata.json", folder / "metadata.json")
    return pack(folder, segment.with_name(quote(segment.name, safe="") + METADATA_SUFFIX))


def facts_of(metadata: SegmentMetadata, sequence_id: int, input_uri: str) -> SegmentFacts:
    """Return the facts from which a segment name is generated."""
    raw = (metadata.start_time_raw, metadata.end_time_raw)
    return SegmentFacts.of(sequence_id, input_uri, raw, (metadata.start_time_ms, metadata.end_time_ms))


def refuse_repeated_names(names: list[str]) -> None:
    """Raise ConflictError if two segments of a job have the same name, as the later archive replaced the earlier one."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConflictError(
            f"several segments of the job are named '{repeated[0]}'; choose a segment name generator whose names differ, "
            f"e.g. one with the sequence id"
        )
