"""Implementations of the commands: one function for each, with its imports."""

import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gamay.base import spans
from gamay.base.allocator import share_one_arena
from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import InvalidConfigError
from gamay.base.log_files import LOG_FILES
from gamay.base.logs import LogFormat, name_instance, write_log
from gamay.base.tls import TlsSettings

if TYPE_CHECKING:
    from gamay.embedded.cluster import EmbeddedCluster

# paths of the certificate, its key, and the authorities
TlsFiles: TypeAlias = tuple[Path | None, Path | None, Path | None]

_LOOK_S = 0.2
_SHOWN_EVERY_S = 3.0
_COMPILERS_MAX = 8


def run_cluster(
    data_dir: Path,
    host: str,
    ports: tuple[int, int, int, int],
    config_file: Path | None,
    log_format: str | None = None,
    tls: TlsFiles = (None, None, None),
    flight: tuple[bool, int | None] = (True, None),
    grpc_port: int | None = None,
) -> None:
    """Run an embedded cluster until SIGTERM or SIGINT, then stop it gracefully.

    ports: of controller, broker, server and minion. tls: files of the certificate, its key, and the authorities.
    flight: whether to serve Flight SQL, and its port, None for the default one if it is free. grpc_port: the port from
    which Trino reads segments, None for none.
    """
    share_one_arena()
    from gamay.broker.flight.port import DEFAULT_FLIGHT_PORT, is_installed, usual_port
    from gamay.cluster.records.records import Role
    from gamay.embedded.cluster import EmbeddedCluster
    from gamay.minion.purgers import NO_FACTORIES
    from gamay.roles.settings import read_access, read_limits, read_log_dir, read_purging, read_storage

    wants_flight, flight_port = flight
    if wants_flight and flight_port is None:
        flight_port = usual_port(host)
    _begin_log(LogFormat.of(log_format or "text"), None if config_file is None else read_log_dir(config_file))
    access = None if config_file is None else read_access(config_file)
    limits = None if config_file is None else read_limits(config_file)
    storage = None if config_file is None else read_storage(config_file)
    server_storage = None if config_file is None else read_storage(config_file, Role.SERVER)
    purge = NO_FACTORIES if config_file is None else read_purging(config_file)
    encrypted = _tls_settings(tls)
    stopped = _stop_signals()
    send_last_spans = spans.configure("all", str(data_dir))
    with EmbeddedCluster(
        data_dir,
        *ports,
        flight_port=flight_port if wants_flight else None,
        grpc_port=grpc_port,
        host=host,
        access=access,
        tls=encrypted,
        limits=limits,
        storage=storage,
        server_storage=server_storage,
        purge=purge,
    ) as cluster:
        print(f"controller  {cluster.controller_url}   (web console; REST interface: {cluster.controller_url}/help)")
        print(f"broker      {cluster.broker_url}")
        print(f"server      {cluster.server_url}")
        if cluster.flight_url is not None:
            print(f"Flight SQL  {cluster.flight_url}")
        elif wants_flight and is_installed():
            print(f"Flight SQL  off: port {DEFAULT_FLIGHT_PORT} is taken, choose another by --flight-port")
        if cluster.grpc_port is not None:
            print(f"gRPC        port {cluster.grpc_port} of the server")
        print(f"data        {data_dir.resolve()}", flush=True)
        begun_s = shown_s = time.monotonic()
        while not (cluster.ready or stopped.wait(_LOOK_S)):
            if time.monotonic() >= shown_s + _SHOWN_EVERY_S:
                shown_s = time.monotonic()
                print(_starting(cluster, shown_s - begun_s), flush=True)
        if cluster.ready:
            print("ready", flush=True)
        stopped.wait()
    send_last_spans()


def _begin_log(log_format: LogFormat, folder: Path | None) -> None:
    """Set up logging, also to files of a folder; the loggers' levels can be changed over REST (PUT /loggers/…)."""
    write_log(log_format)
    if folder is not None:
        LOG_FILES.begin(folder, "cluster", log_format, "all")


def run_serve(path: Path, host: str, port: int, config_file: Path | None, tls: TlsFiles) -> None:
    """Answer Flight SQL clients from a data folder until SIGTERM or SIGINT."""
    from gamay.cluster.access.principals import EVERYBODY
    from gamay.cluster.records.records import Role
    from gamay.embedded.serving import ServedFolder
    from gamay.roles.settings import read_access

    if not path.is_dir():  # which `connect` would create
        raise InvalidConfigError(f"{path}: there is no such folder; create it with gamay.connect('{path}')")
    write_log(LogFormat.TEXT)
    access = EVERYBODY if config_file is None else read_access(config_file)[Role.BROKER]
    stopped = _stop_signals()
    with ServedFolder(path, port, host=host, access=access, tls=_tls_settings(tls)) as served:
        print(f"Flight SQL  {served.url}")
        print(f"data        {path.resolve()}")
        print("ready", flush=True)
        stopped.wait()


def _tls_settings(files: TlsFiles) -> TlsSettings | None:
    certificate, key, authorities = files
    if certificate is None and (key or authorities) is not None:
        raise InvalidConfigError("--tls-key and --tls-ca need --tls-cert: the certificate of this process")
    return None if certificate is None else TlsSettings(certificate, key, authorities=authorities)


def _stop_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def _starting(cluster: "EmbeddedCluster", seconds: float) -> str:
    done, total = cluster.compiled
    if done < total:
        return (
            f"compiling kernels for {seconds:.0f} s: {done} of {total} kinds of work, once for this machine and version; "
            "queries are answered meanwhile, slowly"
        )
    return "loading segments"


def run_ingestion(
    job: Path,
    values: Sequence[str],
    property_file: Path | None,
    job_type: str | None,
    summary: Path | None = None,
    is_local: bool = False,
) -> None:
    """Run a job spec; raises GamayError if rows or segments were lost.

    summary: the file to write a JSON summary to. is_local: build segments in this process, without Spark.
    """
    from gamay.ingest.job.spec import JobSpec, values_of
    from gamay.spark.building.execute import LocalEngine
    from gamay.spark.jobs import run_with_summary

    spec = JobSpec.load(job, values=values_of(values), property_file=property_file, job_type=job_type)
    print(run_with_summary(spec, summary, LocalEngine() if is_local else None))


def show_segment(path: Path) -> None:
    """Print the contents of a segment's folder or archive, and then raise CorruptSegmentError if a checksum differs."""
    from gamay.segment.describe import describe
    from gamay.segment.read.reader import open_segment
    from gamay.storage.archive import unpack

    if not path.exists():
        raise InvalidConfigError(f"{path} does not exist; give the folder or the archive of a segment")
    with tempfile.TemporaryDirectory(prefix="gamay-") as made:
        folder = path if path.is_dir() else unpack(path, Path(made))
        print(describe(folder))
        open_segment(folder)
        print("all checksums match")


def run_warmup() -> None:
    """Compile every kernel that queries and ingestion are known to need, into the cache on disk."""
    from gamay.kernels.cache_folder import cache_dir
    from gamay.kernels.catalog import compiling
    from gamay.server.warmup.queries import warm_up

    begun_s = SYSTEM_CLOCK.monotonic_s()
    if not compiling.is_compiled():
        processes = min(os.cpu_count() or 1, _COMPILERS_MAX)
        print(f"compiling kernels in {processes} processes: some minutes, the first time ...", flush=True)
        compiling.finish(compiling.start(processes))
    warm_up()
    warm_up(over_wire=True)
    print(f"kernels are ready in {cache_dir()} after {SYSTEM_CLOCK.monotonic_s() - begun_s:.1f} s")


def run_role(role: str, config_file: Path | None, given: Mapping[str, Any]) -> None:
    """Run one role of a cluster on ZooKeeper until SIGTERM or SIGINT, then leave it gracefully."""
    share_one_arena()
    from gamay.cluster.records.records import Role
    from gamay.roles.settings import load_settings, log_format_in

    told = given.get("log_format")
    log_format = None if told is None else LogFormat.of(told)
    # reading the file already logs, so the format that it sets must apply before
    write_log(log_format or log_format_in(config_file), role.lower())
    logging.getLogger("gamay").setLevel(logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # kazoo warns on each attempt to connect; the store logs it once
    settings = load_settings(Role(role), config_file, {**given, "log_format": log_format})
    write_log(settings.log_format, role.lower())
    from gamay.roles.processes import role_process

    process = role_process(settings)
    name_instance(process.id)
    if settings.log_dir is not None:
        LOG_FILES.begin(settings.log_dir, process.id, settings.log_format, role.lower())
    send_last_spans = spans.configure(role.lower(), process.id)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.request_stop())
    try:
        process.start()
        print(f"{process.id}  {process.url}", flush=True)
        process.wait()
    finally:
        process.stop()
        send_last_spans()
