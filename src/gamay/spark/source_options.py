"""The options of the format `gamay`, each declared once with its name, purpose and default."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gamay.base.errors import InvalidConfigError, nearest
from gamay.client.connection import Settings
from gamay.client.controller import ControllerClient
from gamay.client.http import service_url
from gamay.client.server import ServerClient
from gamay.model.table.table_name import TableType, raw_table_name, table_type_of
from gamay.storage.settings import StorageSettings

T = TypeVar("T")

CONNECTION = ("controller", "table", "token", "user", "password", "caFile", "tableType", "storageOptions")
READING = (
    *CONNECTION, "columns", "where", "pushDown", "nullHandling", "bigDecimal", "bytesPerPartition", "fetch", "cacheDir",
    "cacheBytes",
)  # fmt: skip
STREAM_READING = (
    *(name for name in READING if name != "pushDown"), "startingSegments", "onReplace", "failOnDataLoss",
    "maxSegmentsPerTrigger", "changes",
)  # fmt: skip
WRITING = (
    *CONNECTION, "jobId", "replaceWhere", "rowsPerSegment", "partitionBy", "sortBy", "createTable", "timeColumn",
    "timeFormat", "tableConfig", "pushAttempts", "summary", "openLineage",
)  # fmt: skip
_OF_ONE_WRITE = ("jobId", "replaceWhere", "summary", "openLineage")
STREAM_WRITING = (*(name for name in WRITING if name not in _OF_ONE_WRITE), "checkpointLocation", "queryName")
STARTS = ("earliest", "latest")
ON_REPLACE = ("fail", "skip", "read")
CHANGES = ("all", "latest")
FETCHES = ("auto", "controller")
BIG_DECIMAL = "decimal(38,18)"
BYTES_PER_PARTITION = 128 << 20
CACHE_BYTES = 10 << 30
ROWS_PER_SEGMENT = 5_000_000
PUSH_ATTEMPTS = 5
_JOB_ID = re.compile(r"[A-Za-z0-9.-]+")


class Given:
    """The options given by a user, with case-insensitive names and typed access. Raises InvalidConfigError."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...], what: str) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        folded = {name.lower() for name in known}
        for name in self._values:
            if name not in folded:
                raise InvalidConfigError(f"the format gamay has no option '{name}' for {what}.{nearest(name, known)}")

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name.lower(), default).strip()

    def required(self, name: str, example: str) -> str:
        value = self.text(name)
        if not value:
            raise InvalidConfigError(f"the option '{name}' is missing, such as .option('{name}', '{example}')")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        return self._read(name, default, {"true": True, "false": False}.__getitem__, "true or false")

    def whole(self, name: str, default: int) -> int:
        def positive(text: str) -> int:
            number = int(text)
            if number < 1:
                raise ValueError
            return number

        return self._read(name, default, positive, "a whole number of at least 1")

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        known = {choice.lower(): choice for choice in choices}
        return self._read(name, default, known.__getitem__, f"one of {', '.join(choices)}")

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())

    def mapping(self, name: str) -> dict[str, Any]:
        def read(_: str) -> dict[str, Any]:
            document = json.loads(self.text(name))  # the value, whose case matters
            if not isinstance(document, dict):
                raise ValueError
            return document

        return self._read(name, {}, read, "a JSON object")

    def _read(self, name: str, default: T, read: Callable[[str], T], wanted: str) -> T:
        text = self.text(name)
        if not text:
            return default
        try:
            return read(text.lower())
        except (ValueError, KeyError):
            raise InvalidConfigError(f"the option '{name}' must be {wanted}, not '{text}'") from None


@dataclass(frozen=True, slots=True)
class Cluster:
    """A table of a cluster, and how to access it; sent to executors.

    controller: its URL. table: as given, raw or typed. table_type: OFFLINE, REALTIME or None for both. storage: settings of
    file systems.
    """

    controller: str
    table: str
    table_type: str | None = None
    token: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, given: Given) -> "Cluster":
        """Read the options. Raises InvalidConfigError."""
        controller = given.required("controller", "http://localhost:9000")
        service_url(controller)
        table, types = given.required("table", "trips"), tuple(t.value for t in TableType)
        named = table_type_of(table)
        return cls(
            controller,
            raw_table_name(table),
            given.choice("tableType", types, "" if named is None else named.value) or None,
            given.text("token") or None,
            given.text("user") or None,
            given.text("password") or None,
            given.text("caFile") or None,
            given.mapping("storageOptions"),
        )

    def client(self) -> ControllerClient:
        """Return a client of the controller."""
        return ControllerClient(self.controller, **self._settings())

    def server(self, url: str) -> ServerClient:
        """Return a client of a server."""
        return ServerClient(url, **self._settings())

    def storage(self, scheme: str | None) -> StorageSettings:
        """Return the settings of the file system of a URI scheme."""
        return StorageSettings({scheme: self.storage_options} if scheme and self.storage_options else {})

    def _settings(self) -> dict[str, Any]:
        verify: Any = True
        if self.ca_file is not None:
            import ssl

            verify = ssl.create_default_context(cafile=self.ca_file)
        return Settings(auth_token=self.token, user=self.user, password=self.password, verify=verify).service()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of `spark.read.format("gamay")`.

    columns: the columns to read, empty for all. where: a SQL condition that selects the rows to read, empty for all.
    push_down: whether Spark's filters are pushed down, see `gamay.spark.source`. null_handling: whether missing values are
    null rather than their columns' default values. big_decimal: the DDL of the Spark type of BIG_DECIMAL columns.
    bytes_per_partition: target size of the segments of one Spark partition. fetch: `auto`, or `controller` to fetch all
    segments from the controller. cache_dir, cache_bytes: the executors' cache of unpacked segments, and its size limit.
    """

    cluster: Cluster
    columns: tuple[str, ...] = ()
    where: str = ""
    push_down: bool = False
    null_handling: bool = False
    big_decimal: str = BIG_DECIMAL
    bytes_per_partition: int = BYTES_PER_PARTITION
    fetch: str = "auto"
    cache_dir: str | None = None
    cache_bytes: int = CACHE_BYTES

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Parse the options. Raises InvalidConfigError that suggests the most similar name for an unknown one."""
        return cls.read_from(Given(options, READING, "reading"))

    @classmethod
    def of_any(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Parse the options of a batch or streaming read. Raises InvalidConfigError."""
        return cls.read_from(Given(options, tuple(dict.fromkeys((*READING, *STREAM_READING))), "reading"))

    @classmethod
    def read_from(cls, given: Given) -> "ReadOptions":
        """Parse the options that are common to all reads. Raises InvalidConfigError."""
        return cls(
            Cluster.of(given),
            given.names("columns"),
            given.text("where"),
            given.flag("pushDown"),
            given.flag("nullHandling"),
            given.text("bigDecimal", BIG_DECIMAL),
            given.whole("bytesPerPartition", BYTES_PER_PARTITION),
            given.choice("fetch", FETCHES, "auto"),
            given.text("cacheDir") or None,
            given.whole("cacheBytes", CACHE_BYTES),
        )

    def cache_folder(self) -> Path:
        """Return this machine's cache folder of segments."""
        return Path(self.cache_dir) if self.cache_dir else default_cache_folder()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of `df.write.format("gamay")`.

    job_id: identifies the write; a completed one is not repeated. replace_where: the SQL condition that selects the rows
    that an overwrite replaces; empty for all. rows_per_segment: the limit. create_table: whether to create a missing table
    with the DataFrame's columns, time_column with the format time_format, and table_config, keys of its config.
    push_attempts: the attempts of each upload. partition_by: the column by which rows are partitioned into segments;
    sort_by: the columns by which the rows of a segment are sorted; None and empty use the table's config.
    summary: the file on the driver's machine for the report of the write. open_lineage: whether to send events.
    """

    cluster: Cluster
    job_id: str
    replace_where: str = ""
    rows_per_segment: int = ROWS_PER_SEGMENT
    create_table: bool = False
    time_column: str | None = None
    time_format: str | None = None
    table_config: Mapping[str, Any] = field(default_factory=dict)
    push_attempts: int = PUSH_ATTEMPTS
    partition_by: str | None = None
    sort_by: tuple[str, ...] = ()
    summary: str | None = None
    open_lineage: bool = False

    @property
    def table_type(self) -> str:
        """Return the type of the target table."""
        return self.cluster.table_type or TableType.OFFLINE.value

    @classmethod
    def of(cls, options: Mapping[str, str], new_id: Callable[[], str]) -> "WriteOptions":
        """Parse the options. new_id: generates a missing job id. Raises InvalidConfigError as `ReadOptions.of` does."""
        given = Given(options, WRITING, "writing")
        return cls._of(given, given.text("jobId") or new_id())

    @classmethod
    def of_stream(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Parse the options of a streaming write, whose batches have their own ids. Raises InvalidConfigError."""
        return cls._of(Given(options, STREAM_WRITING, "writing a stream"), "stream")

    @classmethod
    def _of(cls, given: Given, job_id: str) -> "WriteOptions":
        if not _JOB_ID.fullmatch(job_id):
            raise InvalidConfigError(f"the option 'jobId' must consist of letters, digits, '-' and '.', not '{job_id}'")
        made_of = {name: given.text(name) or None for name in ("timeColumn", "timeFormat")}
        create_table, table_config = given.flag("createTable"), given.mapping("tableConfig")
        if not create_table and (table_config or any(made_of.values())):
            raise InvalidConfigError("timeColumn, timeFormat and tableConfig are for createTable=true only")
        cluster = Cluster.of(given)
        if cluster.table_type == TableType.REALTIME.value and (create_table or given.text("replaceWhere")):
            raise InvalidConfigError("createTable and replaceWhere are for OFFLINE tables; REALTIME ones are appended to")
        return cls(
            cluster,
            job_id,
            given.text("replaceWhere"),
            given.whole("rowsPerSegment", ROWS_PER_SEGMENT),
            create_table,
            made_of["timeColumn"],
            made_of["timeFormat"],
            table_config,
            given.whole("pushAttempts", PUSH_ATTEMPTS),
            given.text("partitionBy") or None,
            given.names("sortBy"),
            given.text("summary") or None,
            given.flag("openLineage"),
        )


def default_cache_folder() -> Path:
    """Return the default cache folder of executors on this machine."""
    import getpass
    import tempfile

    return Path(tempfile.gettempdir()) / f"gamay-segments-{getpass.getuser()}"
