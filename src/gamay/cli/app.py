"""The tree of commands. Each imports its modules when it runs, so that `gamay --help` is fast."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from gamay.cli import admin, index, spark, startree
from gamay.cli.pinot_commands import PinotAware

app = typer.Typer(
    name="gamay",
    cls=PinotAware,
    help="A realtime distributed OLAP datastore.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help texts contain brackets, such as HOST:PORT[/PATH], that are not markup
)
start_app = typer.Typer(help="Start a cluster or one of its roles.", no_args_is_help=True)
segment_app = typer.Typer(help="Look into segments.", no_args_is_help=True)
topic_app = typer.Typer(help="Create and change topics of the embedded stream.", no_args_is_help=True)
quickstart_app = typer.Typer(help="See Gamay at work on real data.", no_args_is_help=True)
app.add_typer(start_app, name="start")
app.add_typer(segment_app, name="segment")
app.add_typer(index.app, name="index")
app.add_typer(startree.app, name="startree")
app.add_typer(topic_app, name="topic")
app.add_typer(quickstart_app, name="quickstart")
app.add_typer(admin.app, name="admin")
app.add_typer(spark.app, name="spark")

DataDir = Annotated[Path, typer.Option("--data-dir", help="The folder for all data; created if missing.")]
ControllerPort = Annotated[int, typer.Option(help="Port of the controller's REST interface.")]
BrokerPort = Annotated[int, typer.Option(help="Port of the broker's query interface.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
Retention = Annotated[Optional[str], typer.Option(help="Remove messages older than this, such as 7d.")]  # noqa: UP045
RetentionSize = Annotated[Optional[str], typer.Option(help="Maximum size of a partition, such as 10G.")]  # noqa: UP045
SegmentSize = Annotated[Optional[str], typer.Option(help="Size of a partition's files, such as 128M.")]  # noqa: UP045
ServerPort = Annotated[int, typer.Option(help="Port of the server's admin interface.")]
ExitAfter = Annotated[bool, typer.Option("--exit", help="Exit after the sample queries.")]
TourDir = Annotated[Optional[Path], typer.Option("--data-dir", help="Keep the data here, not in a new folder.")]  # noqa: UP045


def _print_version(wanted: bool) -> None:
    if wanted:
        import gamay

        typer.echo(gamay.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Accept the options that precede any command."""


LogLines = Annotated[Optional[str], typer.Option("--log-format", help="Format of log lines: text or json.")]  # noqa: UP045
TlsCert = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--tls-cert", help="PEM file with this process's certificate: all its ports are encrypted."),
]
TlsKey = Annotated[Optional[Path], typer.Option("--tls-key", help="PEM file with its key, unless --tls-cert has it.")]  # noqa: UP045
TlsCa = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--tls-ca", help="PEM file with the authorities of the other processes; by default the system's."),
]


GrpcPort = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--grpc-port",
        help="Port from which Trino, Presto and Spark read the server's segments; needs gamay[grpc]; by default none.",
    ),
]


@start_app.command("all")
def start_all(
    data_dir: DataDir,
    controller_port: ControllerPort = 9000,
    broker_port: BrokerPort = 8099,
    server_port: ServerPort = 8098,
    minion_port: Annotated[int, typer.Option(help="Port of the minion's HTTP interface; 0 takes a free one.")] = 0,
    flight_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Port for Flight SQL; by default 32010 if it is free. 0 takes a free one."),
    ] = None,
    flight: Annotated[bool, typer.Option(help="Whether to serve Flight SQL; needs gamay[flight].")] = True,
    grpc_port: GrpcPort = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    config_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="A properties file: who may log in, limits of requests; see docs/operate/security.md."),
    ] = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    log_format: LogLines = None,
) -> None:
    """Run all roles in one process, in the foreground, until SIGTERM or Ctrl-C."""
    from gamay.cli.run import run_cluster

    run_cluster(
        data_dir, host, (controller_port, broker_port, server_port, minion_port), config_file, log_format,
        (tls_cert, tls_key, tls_ca), (flight, flight_port), grpc_port,
    )  # fmt: skip


@app.command("serve")
def serve(
    path: Annotated[Path, typer.Argument(help="A data folder, as created by gamay.connect.")],
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 32010,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    config_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="A properties file: who may log in, by its keys for brokers; see docs/operate/security.md."),
    ] = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Answer Flight SQL clients (ADBC, JDBC, ODBC) from a data folder, until SIGTERM or Ctrl-C."""
    from gamay.cli.run import run_serve

    run_serve(path, host, port, config_file, (tls_cert, tls_key, tls_ca))


Zk = Annotated[Optional[str], typer.Option("--zk", help="ZooKeeper: HOST:PORT[,HOST:PORT…][/PATH].")]  # noqa: UP045
ClusterName = Annotated[Optional[str], typer.Option(help="The cluster's name; by default PinotCluster.")]  # noqa: UP045
Host = Annotated[Optional[str], typer.Option(help="This process's host name for other processes; localhost unless given.")]  # noqa: UP045
Listen = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Address to listen on; by default this machine only for --host localhost, else all addresses."),
]
ConfigFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--config-file", help="A properties file with Pinot's keys, such as controller.data.dir; options override it."
    ),
]
Tags = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Tags for the first start, separated by commas; by default those of the default tenant."),
]
WaitS = Annotated[Optional[float], typer.Option(help="How many seconds to wait for ZooKeeper; by default 60.")]  # noqa: UP045
HttpPort = Annotated[Optional[int], typer.Option("--port", help="Port of the HTTP interface.")]  # noqa: UP045
RoleDataDir = Annotated[Optional[Path], typer.Option("--data-dir", help="The role's folder; created if missing.")]  # noqa: UP045


def _run_role(role: str, config_file: Path | None, tags: str | None = None, **given: object) -> None:
    from gamay.cli.run import run_role

    given["tags"] = None if tags is None else tuple(tag.strip() for tag in tags.split(",") if tag.strip())
    run_role(role, config_file, given)


@start_app.command("controller")
def start_controller(
    zk: Zk = None,
    data_dir: RoleDataDir = None,
    deep_store: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Where all controllers keep segments: s3://BUCKET/PATH, a path, …; by default --data-dir."),
    ] = None,
    port: HttpPort = None,
    cluster_name: ClusterName = None,
    host: Host = None,
    listen: Listen = None,
    wait_s: WaitS = None,
    log_format: LogLines = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    config_file: ConfigFile = None,
) -> None:
    """Run a controller (port 9000); the deep store, which all controllers share, is --deep-store or else --data-dir."""
    _run_role(
        "Controller", config_file, zk=zk, data_dir=data_dir, deep_store=deep_store, port=port,
        cluster=cluster_name, host=host, listen=listen, wait_s=wait_s, tls_cert=tls_cert, tls_key=tls_key, tls_ca=tls_ca,
        log_format=log_format,
    )  # fmt: skip


@start_app.command("broker")
def start_broker(
    zk: Zk = None,
    port: HttpPort = None,
    flight_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Port for Flight SQL, which needs gamay[flight]; by default none."),
    ] = None,
    cluster_name: ClusterName = None,
    host: Host = None,
    listen: Listen = None,
    tags: Tags = None,
    wait_s: WaitS = None,
    log_format: LogLines = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    warm_up: Annotated[bool, typer.Option(help="Compile the kernels for merging in the background.")] = True,
    config_file: ConfigFile = None,
) -> None:
    """Run a broker (port 8099)."""
    _run_role(
        "Broker", config_file, tags, zk=zk, port=port, flight_port=flight_port,
        cluster=cluster_name, host=host, listen=listen, wait_s=wait_s,
        tls_cert=tls_cert, tls_key=tls_key, tls_ca=tls_ca, log_format=log_format,
        warm_up=warm_up,
    )  # fmt: skip


@start_app.command("server")
def start_server(
    zk: Zk = None,
    data_dir: RoleDataDir = None,
    port: HttpPort = None,
    query_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Port for brokers' queries; by default 8097."),
    ] = None,
    grpc_port: GrpcPort = None,
    deep_store: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The controllers' deep store, if this machine can access it; by default segments come over HTTP."),
    ] = None,
    cluster_name: ClusterName = None,
    host: Host = None,
    listen: Listen = None,
    tags: Tags = None,
    wait_s: WaitS = None,
    log_format: LogLines = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    warm_up: Annotated[bool, typer.Option(help="Compile the kernels of queries before /health reports readiness.")] = True,
    config_file: ConfigFile = None,
) -> None:
    """Run a server (port 8098); --data-dir holds its copies of segments."""
    _run_role(
        "Server", config_file, tags, zk=zk, data_dir=data_dir, port=port, query_port=query_port, grpc_port=grpc_port,
        deep_store=deep_store, cluster=cluster_name, host=host, listen=listen, wait_s=wait_s, tls_cert=tls_cert,
        tls_key=tls_key, tls_ca=tls_ca, log_format=log_format, warm_up=warm_up,
    )  # fmt: skip


@start_app.command("minion")
def start_minion(
    zk: Zk = None,
    data_dir: RoleDataDir = None,
    port: HttpPort = None,
    cluster_name: ClusterName = None,
    host: Host = None,
    listen: Listen = None,
    tags: Tags = None,
    wait_s: WaitS = None,
    log_format: LogLines = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    config_file: ConfigFile = None,
) -> None:
    """Run a minion (port 9514); --data-dir is its scratch space, by default a temporary folder."""
    _run_role(
        "Minion", config_file, tags, zk=zk, data_dir=data_dir, port=port, cluster=cluster_name, host=host, listen=listen,
        wait_s=wait_s, log_format=log_format, tls_cert=tls_cert, tls_key=tls_key, tls_ca=tls_ca,
    )  # fmt: skip


class Engine(StrEnum):
    """Engine that builds the segments of a job."""

    SPARK = "spark"
    LOCAL = "local"


@app.command("ingest")
def ingest(
    job: Annotated[Path, typer.Argument(help="Job spec: YAML, JSON, or the older properties file.")],
    value: Annotated[Optional[list[str]], typer.Option("--value", help="k=v for ${k} in the job spec.")] = None,  # noqa: UP045
    property_file: Annotated[Optional[Path], typer.Option(help="A file of k=v lines for ${k}.")] = None,  # noqa: UP045
    job_type: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Type of a .properties job, such as SegmentTarPush; other specs contain it."),
    ] = None,
    summary: Annotated[Optional[Path], typer.Option(help="Write a summary of the job to this file, as JSON.")] = None,  # noqa: UP045
    engine: Annotated[
        Engine, typer.Option(help="Where segments are built: on Spark, or in threads of this process, without Java.")
    ] = Engine.SPARK,
) -> None:
    """Run a batch ingestion job: build segments, push them, or both."""
    from gamay.cli.run import run_ingestion

    run_ingestion(job, value or [], property_file, job_type, summary, engine is Engine.LOCAL)


Output = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--output", "--format", help="table, line, auto, csv, json, jsonl, markdown, parquet or arrow."),
]
Params = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--param", help="name=value for :name, or a value for each ? in turn; repeatable."),
]


@app.command("sql")
def sql(
    place: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="[PATH|URL|@PROFILE]",
            help="A data folder, the URL of a controller or broker, or a profile; else GAMAY_PROFILE, GAMAY_URL, in memory.",
        ),
    ] = None,
    execute: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--execute", "-c", help="Run these statements and exit; repeatable."),
    ] = None,
    file: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option("--file", "-f", help="Run the statements of a file and exit; - is standard input."),
    ] = None,
    param: Params = None,
    output: Output = None,
    output_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write the answers to this file; the format is --output, or that of its suffix."),
    ] = None,
    stop_on_error: Annotated[bool, typer.Option(help="Whether the first failing statement ends the run.")] = True,
    profile: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="A [profiles.NAME] of ~/.config/gamay/config.toml."),
    ] = None,
    user: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Log in as this user; the password is prompted for, or in GAMAY_PASSWORD."),
    ] = None,
    database: Annotated[Optional[str], typer.Option(help="The default database of table names.")] = None,  # noqa: UP045
    tls_ca: TlsCa = None,
    timeout_s: Annotated[Optional[float], typer.Option(help="Timeout of a statement in seconds.", min=0.001)] = None,  # noqa: UP045
) -> None:
    """Query in SQL: run the given or piped statements, or else an interactive shell."""
    from gamay.cli.shell import run_sql

    login = {"user": user, "tls_ca": tls_ca, "database": database, "timeout_s": timeout_s}
    run_sql(place, profile, execute, file, param, output, output_file, login, stops=stop_on_error)


@app.command("query")
def query(
    sql: Annotated[str, typer.Argument(help="The query.")],
    broker: Annotated[
        str, typer.Option(envvar="GAMAY_URL", help="The broker or controller to query.")
    ] = "http://localhost:8099",
    data_dir: Annotated[Optional[Path], typer.Option("--data-dir", help="Query this folder, without a cluster.")] = None,  # noqa: UP045
    param: Params = None,
    output: Output = None,
) -> None:
    """Print the answer to one query; short for `gamay sql URL -c SQL`."""
    from gamay.cli.shell import run_sql

    run_sql(broker if data_dir is None else str(data_dir), None, [sql], None, param, output)


@segment_app.command("show")
def segment_show(path: Annotated[Path, typer.Argument(help="A segment's folder or archive.")]) -> None:
    """Print the contents of a segment, with sizes, and verify its checksums."""
    from gamay.cli.run import show_segment

    show_segment(path)


@topic_app.command("create")
def topic_create(
    topic: TopicName,
    data_dir: DataDir,
    partitions: Annotated[int, typer.Option(help="Number of partitions.")] = 1,
    retention: Retention = None,
    retention_size: RetentionSize = None,
    segment_size: SegmentSize = None,
) -> None:
    """Create a topic."""
    from gamay.cli.streams import create_topic

    settings = {"retention": retention, "retention_size": retention_size, "segment_size": segment_size}
    create_topic(data_dir, topic, partitions, settings)


@topic_app.command("alter")
def topic_alter(
    topic: TopicName,
    data_dir: DataDir,
    partitions: Annotated[Optional[int], typer.Option(help="The new number of partitions; it can only grow.")] = None,  # noqa: UP045
    retention: Retention = None,
    retention_size: RetentionSize = None,
    segment_size: SegmentSize = None,
) -> None:
    """Add partitions to a topic, or change its retention."""
    from gamay.cli.streams import alter_topic

    settings = {"retention": retention, "retention_size": retention_size, "segment_size": segment_size}
    alter_topic(data_dir, topic, partitions, settings)


@topic_app.command("list")
def topic_list(data_dir: DataDir) -> None:
    """Print the topics: name, number of partitions, first and next offset of each partition."""
    from gamay.cli.streams import list_topics

    list_topics(data_dir)


@app.command("produce")
def produce(
    topic: TopicName,
    data_dir: DataDir,
    partition: Annotated[Optional[int], typer.Option(help="Append to this partition; by default to each in turn.")] = None,  # noqa: UP045
    key: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="COLUMN", help="Choose the partition by this column's value, as Kafka does."),
    ] = None,
) -> None:
    """Append JSON lines from standard input to a topic, and return when they are durable."""
    from gamay.cli.streams import produce

    produce(data_dir, topic, partition, key)


@quickstart_app.command("batch")
def quickstart_batch(
    exit_after: ExitAfter = False,
    data_dir: TourDir = None,
    controller_port: ControllerPort = 9000,
    broker_port: BrokerPort = 8099,
    server_port: ServerPort = 8098,
) -> None:
    """Flights of 2013, built into segments by PySpark, pushed to a cluster, and queried in SQL."""
    from gamay.cli.quickstart import run_batch

    run_batch(exit_after, data_dir, controller_port, broker_port, server_port)


@quickstart_app.command("realtime")
def quickstart_realtime(
    exit_after: ExitAfter = False,
    data_dir: TourDir = None,
    controller_port: ControllerPort = 9000,
    broker_port: BrokerPort = 8099,
    server_port: ServerPort = 8098,
) -> None:
    """Flights of 2013, replayed as events into a stream, and counted while the table consumes them."""
    from gamay.cli.quickstart_realtime import run_realtime

    run_realtime(exit_after, data_dir, controller_port, broker_port, server_port)


@quickstart_app.command("hybrid")
def quickstart_hybrid(
    exit_after: ExitAfter = False,
    data_dir: TourDir = None,
    controller_port: ControllerPort = 9000,
    broker_port: BrokerPort = 8099,
    server_port: ServerPort = 8098,
) -> None:
    """Flights of 2013, the older ones from PySpark, the newer ones from a stream, queried as one table."""
    from gamay.cli.quickstart_realtime import run_hybrid

    run_hybrid(exit_after, data_dir, controller_port, broker_port, server_port)


@quickstart_app.command("upsert")
def quickstart_upsert(
    exit_after: ExitAfter = False,
    data_dir: TourDir = None,
    controller_port: ControllerPort = 9000,
    broker_port: BrokerPort = 8099,
    server_port: ServerPort = 8098,
) -> None:
    """A table of planes with only the latest flight of each, from a stream; a plane is deleted, and comes back."""
    from gamay.cli.quickstart_upsert import run_upsert

    run_upsert(exit_after, data_dir, controller_port, broker_port, server_port)


@quickstart_app.command("partial-upsert")
def quickstart_partial_upsert(
    exit_after: ExitAfter = False,
    data_dir: TourDir = None,
    controller_port: ControllerPort = 9000,
    broker_port: BrokerPort = 8099,
    server_port: ServerPort = 8098,
) -> None:
    """Totals of each plane, merged row by row from a stream of the flights of 2013."""
    from gamay.cli.quickstart_upsert import run_partial_upsert

    run_partial_upsert(exit_after, data_dir, controller_port, broker_port, server_port)


@app.command("warmup")
def warmup() -> None:
    """Compile all kernels ahead of time, on all cores, so that no query waits for the compiler."""
    from gamay.cli.run import run_warmup

    run_warmup()


@app.command("hash-password")
def hash_password(
    password: Annotated[
        str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True, help="Prompted for unless given.")
    ],
) -> None:
    """Print the hash of a password, for use in a properties file."""
    from gamay.cluster.access.passwords import hashed_password

    typer.echo(hashed_password(password))
