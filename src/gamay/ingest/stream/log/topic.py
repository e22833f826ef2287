"""Topics: their names, settings and folders."""

import json
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError, nearest
from gamay.storage.files import atomic_write, fsync_folder, full_disk_explained, publish_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", re.ASCII)
_FILE = "topic.json"
PARTITIONS_MAX = 10_000
DEFAULT_SEGMENT_BYTES = 128 << 20
_SEGMENT_BYTES_MIN = 1 << 10


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's settings.

    segment_bytes: size at which a partition starts a new file. retention_ms, retention_bytes: when it does, the oldest files
    are deleted if their messages are older, or if the partition without them still has that size; None keeps all.
    """

    partitions: int
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    retention_ms: int | None = None
    retention_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= PARTITIONS_MAX:
            raise InvalidConfigError(f"a topic has 1 to {PARTITIONS_MAX} partitions, not {self.partitions}")
        if self.segment_bytes < _SEGMENT_BYTES_MIN:
            raise InvalidConfigError(f"the segment size of a topic must be at least {_SEGMENT_BYTES_MIN} bytes")
        for name, value in (("retention time", self.retention_ms), ("retention size", self.retention_bytes)):
            if value is not None and value <= 0:
                raise InvalidConfigError(f"the {name} of a topic must be greater than 0; leave it out to keep everything")


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic."""

    folder: Path

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.folder.name

    def config(self) -> TopicConfig:
        """Return the topic's current settings."""
        return TopicConfig(**json.loads((self.folder / _FILE).read_bytes()))

    def partition_folder(self, partition: int) -> Path:
        """Return the folder of a partition's files; raises NotFoundError for an unknown partition."""
        folder = self.folder / f"partition-{partition}"
        if not folder.is_dir():
            raise NotFoundError(
                f"the topic '{self.name}' has the partitions 0 to {self.config().partitions - 1}, not {partition}"
            )
        return folder

    def alter(self, config: TopicConfig) -> None:
        """Change the settings; raises InvalidConfigError if the number of partitions would decrease."""
        present = self.config()
        if config.partitions < present.partitions:
            raise InvalidConfigError(
                f"the topic '{self.name}' has {present.partitions} partitions; their number can only grow"
            )
        with full_disk_explained(f"changing the topic '{self.name}'", self.folder):
            for partition in range(present.partitions, config.partitions):
                (self.folder / f"partition-{partition}").mkdir(exist_ok=True)
            fsync_folder(self.folder)
            atomic_write(self.folder / _FILE, json.dumps(asdict(config)).encode())


def create_topic(folder: Path, name: str, config: TopicConfig) -> Topic:
    """Durably create a topic below `folder`; raises ConflictError if it exists, InvalidConfigError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise InvalidConfigError(
            f"'{name}' cannot be the name of a topic; use letters, digits, '.', '_' and '-', the first a letter or digit"
        )
    final = folder / name
    with full_disk_explained(f"creating the topic '{name}'", folder):
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
        try:
            temporary.chmod(0o755)
            for partition in range(config.partitions):
                (temporary / f"partition-{partition}").mkdir()
            (temporary / _FILE).write_text(json.dumps(asdict(config)), encoding="utf-8")
            if final.exists():
                raise ConflictError(f"the topic '{name}' exists already; 'gamay topic alter' changes it")
            publish_folder(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return Topic(final)


def open_topic(folder: Path, name: str) -> Topic:
    """Return a topic below `folder`; raises NotFoundError that suggests the most similar name."""
    found = Topic(folder / name)
    if not _NAME.fullmatch(name) or not (found.folder / _FILE).is_file():
        names = topic_names(folder)
        raise NotFoundError(
            f"there is no topic '{name}' in '{folder}'; 'gamay topic create' makes one.{nearest(name, names)}"
        )
    return found


def topic_names(folder: Path) -> list[str]:
    """Return the names of all topics below `folder`, sorted."""
    return sorted(path.parent.name for path in folder.glob(f"*/{_FILE}"))


def with_changes(config: TopicConfig, **changes: int | None) -> TopicConfig:
    """Return the settings with the changes that are not None applied."""
    return replace(config, **{name: value for name, value in changes.items() if value is not None})
