"""The settings of a role's process, and its registration in the cluster."""

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.waiting import PATIENCE_S

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.base.logs import LogFormat
from gamay.base.zookeeper_login import SaslSettings
from gamay.cluster.records.records import Instance, Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.secret import shared_secret
from gamay.cluster.store.znrecord import ZNRecord, encode
from gamay.ingest.json_schemas import schema_text
from gamay.minion.on_spark import SparkBuilder
from gamay.minion.purgers import PurgeFactories
from gamay.minion.spark_settings import SparkSettings
from gamay.model.table.upsert_defaults import ServerDefaults
from gamay.roles.cluster_keys import AUTO_JOIN, cluster_keys
from gamay.roles.listeners import listener_prefixes
from gamay.roles.membership import claim_instance_id, join, set_shutting_down
from gamay.roles.settings import (
    RoleSettings,
    key_forms,
    load_settings,
    log_format_in,
    read_access,
    read_log_dir,
    read_purging,
)

ZK = {"zk": "zk:2181/gamay"}
SPARK, STAGING = "gamay.minion.spark.master", "gamay.minion.spark.staging.uri"


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore.open(tmp_path / "metadata.db", SYSTEM_CLOCK)


def test_defaults_of_each_role() -> None:
    assert load_settings(Role.BROKER, None, ZK).port == 8099
    assert load_settings(Role.MINION, None, ZK).port == 9514
    controller = load_settings(Role.CONTROLLER, None, {**ZK, "data_dir": Path("/d")})
    assert (controller.port, controller.session_timeout_s, controller.address) == (9000, 4.0, "127.0.0.1")
    server = load_settings(Role.SERVER, None, {**ZK, "data_dir": Path("/d"), "host": "srv1", "tags": None})
    assert (server.port, server.query_port, server.address, server.instance_id) == (8098, 8097, "0.0.0.0", "")


def test_the_format_of_the_log_and_the_login_at_zookeeper_come_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "role.conf"
    file.write_text(
        "gamay.log.format=json\nzookeeper.sasl.mechanism=DIGEST-MD5\nzookeeper.sasl.username=u\nzookeeper.sasl.password=s3cret\n"
        "zookeeper.auth.digest=v:s3cret\nzookeeper.tls.insecure=true\n"
    )
    assert log_format_in(file) is LogFormat.JSON
    assert log_format_in(None) is LogFormat.TEXT
    settings = load_settings(Role.BROKER, file, ZK)
    login = settings.zk_login
    assert (login.sasl, login.digest) == (SaslSettings("DIGEST-MD5", "u", "s3cret"), "v:s3cret")
    assert login.tls is not None
    assert login.tls.insecure
    assert "s3cret" not in repr(settings)


def test_processes_that_pay_for_processor_time_may_sleep(tmp_path: Path) -> None:
    file = tmp_path / "role.conf"
    file.write_text("gamay.query.awake.us.max=0\n")
    for role in (Role.BROKER, Role.SERVER):
        assert load_settings(role, file, {**ZK, "data_dir": Path("/d")}).busy_poll_us == 0
        assert load_settings(role, None, {**ZK, "data_dir": Path("/d")}).busy_poll_us is None
    file.write_text("gamay.query.awake.us.max=-1\n")
    with pytest.raises(InvalidConfigError, match=r"gamay\.query\.awake\.us\.max"):
        load_settings(Role.BROKER, file, ZK)


def test_the_secret_of_a_cluster_is_configured_or_read_from_a_file(tmp_path: Path) -> None:
    file, held = tmp_path / "role.conf", tmp_path / "secret"
    assert load_settings(Role.BROKER, None, ZK).secret == b""
    file.write_text("gamay.cluster.secret=correct horse battery\n")
    found = load_settings(Role.BROKER, file, ZK)
    assert found.secret == b"correct horse battery"
    assert "horse" not in repr(found)
    held.write_text("from a mounted file\n")
    file.write_text(f"gamay.cluster.secret.file={held}\n")
    assert load_settings(Role.BROKER, file, ZK).secret == b"from a mounted file"
    held.write_text("short\n")
    with pytest.raises(InvalidConfigError, match=r"gamay\.cluster\.secret has 5 characters; 16 are the least"):
        load_settings(Role.BROKER, file, ZK)
    held.unlink()
    with pytest.raises(InvalidConfigError, match=r"gamay\.cluster\.secret\.file: cannot read"):
        load_settings(Role.BROKER, file, ZK)


def test_the_first_process_makes_the_secret_that_the_others_read(store: EmbeddedStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: shared_secret(store), range(32)))
    assert len(found) == 1
    assert len(found.pop()) == 64


@pytest.mark.parametrize("value", [encode(ZNRecord("CLUSTER_SECRET")), b"garbage", b"null"])
def test_a_damaged_secret_is_made_anew(store: EmbeddedStore, value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    before = shared_secret(store)
    store.set(paths.CLUSTER_SECRET, value, None)
    with ThreadPoolExecutor(8) as pool:
        (found,) = set(pool.map(lambda _: shared_secret(store), range(32)))
    assert (len(found), found != before) == (64, True)
    assert "CLUSTER_SECRET is damaged, a new secret is generated: restart all other processes" in caplog.text


def test_a_minions_file_names_what_purges_rows(tmp_path: Path) -> None:
    file = tmp_path / "minion.conf"
    file.write_text("gamay.minion.record.purgers=operator:not_, math:sqrt\ngamay.minion.record.modifiers=math:nothing\n")
    found = load_settings(Role.MINION, file, ZK).purge
    assert found == PurgeFactories(("operator:not_", "math:sqrt"), ("math:nothing",))
    with pytest.raises(InvalidConfigError, match=r"'gamay.minion.record.modifiers' .* 'nothing'"):
        found.check()
    with pytest.raises(InvalidConfigError, match=r"'gamay.minion.record.modifiers' .* 'nothing'"):
        read_purging(file)
    file.write_text("gamay.minion.record.purgers=operator:not_\n")
    assert read_purging(file) == PurgeFactories(("operator:not_",))
    assert load_settings(Role.MINION, None, ZK).purge == PurgeFactories()


def test_an_embedded_cluster_has_one_folder_of_log_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "all.conf"
    file.write_text("gamay.minion.record.purgers=operator:not_\n")
    assert read_log_dir(file) is None
    file.write_text("pinot.broker.logger.root.dir=/var/log/x\ngamay.minion.record.purgers=operator:not_\n")
    assert read_log_dir(file) == Path("/var/log/x")
    read_access(file)
    assert "means nothing" not in caplog.text
    file.write_text("pinot.broker.logger.root.dir=/var/log/x\npinot.server.logger.root.dir=/var/log/y\n")
    with pytest.raises(InvalidConfigError, match=r"broker\.logger.* pinot\.server\..* must be the same"):
        read_log_dir(file)


def test_a_minion_may_have_spark_build_segments(tmp_path: Path) -> None:
    file = tmp_path / "minion.conf"
    file.write_text("gamay.minion.spark.master=local[2]\ngamay.minion.spark.staging.uri=/nfs/staging/\n")
    assert load_settings(Role.MINION, file, ZK).spark == SparkSettings("local[2]", "/nfs/staging")
    assert load_settings(Role.MINION, None, ZK).spark is None
    file.write_text("gamay.minion.spark.master=spark://s:7077\ngamay.minion.spark.staging.uri=s3://bucket/staging\n")
    assert load_settings(Role.MINION, file, ZK).spark == SparkSettings("spark://s:7077", "s3://bucket/staging")
    assert load_settings(Role.SERVER, file, {**ZK, "data_dir": Path("/d")}).spark is None


def test_a_minion_refuses_spark_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = SparkBuilder(SparkSettings("local[2]", str(tmp_path)), "Minion_m_1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidConfigError, match="Spark needs Java 17 or newer, and JAVA_HOME is"):
        builder.check()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InvalidConfigError, match=r"'gamay\.minion\.spark\.master' needs PySpark: pip install"):
        builder.check()


def test_a_file_with_the_older_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "server.conf"
    file.write_text(
        "pinot.zk.server=zk1:2181,zk2:2181\npinot.cluster.name=Prod\npinot.server.netty.host=srv1\n"
        "pinot.server.netty.port=8098\npinot.server.adminapi.port=8097\npinot.server.instance.dataDir=/data/index\n"
        "pinot.server.shutdown.timeout.ms=600000\npinot.server.instance.dataDirr=/x\ncluster.tenant.isolation.enable=false\n"
        "pinot.server.instance.max.segment.preload.threads=5\npinot.server.instance.upsert.default.enable.snapshot=false\n"
    )
    settings = load_settings(Role.SERVER, file, {"zk": None, "cluster": "Other"})
    assert (settings.zk, settings.cluster, settings.host) == ("zk1:2181,zk2:2181", "Other", "srv1")
    assert (settings.query_port, settings.port, settings.instance_id) == (8098, 8097, "Server_srv1_8098")
    assert (settings.data_dir, settings.drain_s, settings.tenant_isolation) == (Path("/data/index"), 600.0, False)
    assert settings.key_defaults == ServerDefaults(snapshot=False, preload_threads=5)
    assert "Did you mean 'pinot.server.instance.dataDir'?" in caplog.text

    file.write_text("controller.zk.str=zk\ncontroller.data.dir=file:///nfs/deep\ncontroller.vip.host=vip\n")
    controller = load_settings(Role.CONTROLLER, file, {})
    assert (controller.data_dir, controller.url) == (Path("/nfs/deep"), "http://vip:9000")
    assert "controller.vip.host" in key_forms(Role.CONTROLLER)


def test_a_setting_of_the_cluster_in_a_file_is_told_where_it_belongs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.conf"
    shared = sorted(cluster_keys())
    assert {
        "pinot.server.consuming.segment.consistency.mode", "pinot.broker.query.log.maxRatePerSecond", AUTO_JOIN
    } < set(shared)  # fmt: skip
    for role in Role:
        assert not set(shared) & set(key_forms(role))
    file.write_text("".join(f"{key}=1\n" for key in shared))
    load_settings(Role.SERVER, file, {**ZK, "data_dir": Path("/d")})
    told = "is a setting of the cluster, which no file changes: send it to POST /cluster/configs of a controller"
    assert [record.getMessage() for record in caplog.records] == [f"{file}: '{key}' {told}" for key in shared]
    caplog.clear()
    read_access(file)
    assert [record.getMessage() for record in caplog.records] == [f"{file}: '{key}' {told}" for key in shared]
    caplog.clear()
    file.write_text(
        "pinot.server.instance.realtime.alloc.offheap=true\npinot.server.instance.realtime.max.parallel.segment.build=1\n"
    )
    load_settings(Role.SERVER, file, {**ZK, "data_dir": Path("/d")})
    assert [record.getMessage().partition(" means nothing to ")[2] for record in caplog.records] == [
        "a server.",
        "a server. Did you mean 'pinot.server.instance.realtime.max.parallel.segment.builds'?",
    ]


@pytest.mark.parametrize("role", Role)
def test_what_a_role_reads_its_json_schema_allows(role: Role, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, allows = tmp_path / "role.conf", Draft202012Validator(json.loads(schema_text("role-config"))).is_valid
    given = {**ZK, "data_dir": tmp_path}
    refused = 0
    for key, form in key_forms(role).items():
        for value in ("7", "true", "a long enough text", "-3", ""):
            file.write_text(f"{key}={value}\n")
            try:
                load_settings(role, file, given)
            except InvalidConfigError:
                refused += 1
            else:
                assert allows({key: value}), (key, value)
        assert allows({key: "some"}) is (form == "text")
    assert refused > 5
    assert "means nothing" not in caplog.text
    prefix = listener_prefixes(role)[0]
    assert allows({f"{prefix}insecure": "true", "zookeeper.tls.insecure": True})
    assert not allows({"pinot.cluster.nam": "x"})


@pytest.mark.parametrize(
    ("text", "given", "port"),
    [
        ("", None, None),
        ("", 7, 7),
        ("pinot.server.grpc.port=8091", None, 8091),
        ("pinot.server.grpc.port=8091", 7, 7),
        ("pinot.server.grpc.enable=true", None, 8090),
        ("pinot.server.grpc.enable=false\npinot.server.grpc.port=8091", None, None),
        ("pinot.server.grpc.enable=false", 7, 7),
    ],
)
def test_where_a_server_takes_queries_by_grpc(tmp_path: Path, text: str, given: int | None, port: int | None) -> None:
    file = tmp_path / "server.conf"
    file.write_text(f"pinot.zk.server=zk\npinot.server.instance.dataDir=/d\npinot.server.grpctls.enabled=true\n{text}\n")
    settings = load_settings(Role.SERVER, file, {"grpc_port": given})
    assert (settings.grpc_port, settings.grpc_tls) == (port, True)


@pytest.mark.parametrize(
    ("role", "text", "problem"),
    [
        (Role.BROKER, "", "--zk is missing"),
        (Role.SERVER, "pinot.zk.server=zk", "--data-dir is missing: the folder for this server's copies"),
        (Role.BROKER, "pinot.zk.server=zk\npinot.broker.client.queryPort=http", "'pinot.broker.client.queryPort' cannot be"),
        (Role.SERVER, "pinot.server.instance.max.segment.preload.threads=-1", "preload.threads' cannot be '-1'"),
        (Role.SERVER, "pinot.server.instance.upsert.default.enable.preload=maybe", "cannot be 'maybe'"),
        (Role.BROKER, "pinot.zk.server=zk\ncluster.tenant.isolation.enable=maybe", "cannot be 'maybe'"),
        (
            Role.MINION,
            "pinot.zk.server=zk\ngamay.minion.spark.master=local[2]",
            "needs 'gamay.minion.spark.staging.uri', too",
        ),
        (Role.MINION, "pinot.zk.server=zk\ngamay.minion.spark.staging.uri=/s", "needs 'gamay.minion.spark.master', too"),
        (Role.MINION, f"pinot.zk.server=zk\n{SPARK}=mesos\n{STAGING}=/s", "master' cannot be 'mesos'"),
        (Role.MINION, f"pinot.zk.server=zk\n{SPARK}=yarn\n{STAGING}=s/t", "cannot be 's/t': it must be an absolute path"),
        (Role.MINION, f"pinot.zk.server=zk\n{SPARK}=yarn\n{STAGING}=https://s", "writable URI"),
    ],
)
def test_what_cannot_be(tmp_path: Path, role: Role, text: str, problem: str) -> None:
    file = tmp_path / "role.conf"
    file.write_text(text)
    with pytest.raises(InvalidConfigError, match=problem):
        load_settings(role, file, {})
    with pytest.raises(InvalidConfigError, match="cannot read"):
        load_settings(role, tmp_path / "missing", {})


def test_joining_and_leaving(store: EmbeddedStore) -> None:
    registry = Registry(store)
    settings = RoleSettings(Role.SERVER, "zk", 8098, host="srv1")
    assert join(settings, registry, "Server_srv1_8098", 8097, 8098, 8090).grpc_port == 8090
    assert join(settings, registry, "Server_srv1_8098", 8097, 8098, -1).grpc_port == -1
    first = join(settings, registry, "Server_srv1_8098", 8097, 8098)
    assert (first.port, first.admin_port, first.tags) == (8097, 8098, ("DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"))
    set_shutting_down(registry, first.id)
    leaving = registry.get_instance(first.id)
    assert leaving is not None
    assert leaving.shutting_down
    registry.put_instance(Instance(first.id, "srv1", 8097, ("mine",), admin_port=8098, shutting_down=True))
    again = join(settings, registry, first.id, 7000, 7001)
    assert (again.port, again.admin_port, again.tags, again.shutting_down) == (7000, 7001, ("mine",), False)
    assert registry.get_instance(first.id) == again

    untagged = join(RoleSettings(Role.BROKER, "zk", 1, tenant_isolation=False), registry, "Broker_b_1", 1, 1)
    assert untagged.tags == ("broker_untagged",)
    registry.update_cluster_config({AUTO_JOIN: "false"})
    with pytest.raises(InvalidConfigError, match="'allowParticipantAutoJoin' is false"):
        join(settings, registry, "Server_srv2_8098", 1, 1)
    assert join(settings, registry, first.id, 1, 1).port == 1


def test_taking_the_place_of_a_process_that_is_gone(store: EmbeddedStore) -> None:
    name, here = "Server_srv1_8098", socket.gethostname()
    path = paths.live_instance(name)
    other = store.new_session()

    def alive_as(process: str) -> None:
        other.delete(path)
        other.create(path, encode(ZNRecord(name, {"LIVE_INSTANCE": process})), ephemeral=True)

    for gone in (f"{os.getpid()}@{here}", f"4194303@{here}"):
        alive_as(gone)
        claim_instance_id(store, name, SYSTEM_CLOCK, session_timeout_s=0)
        assert store.get(path) is None
    for running in (f"1@{here}", "1@another-machine", ""):
        alive_as(running)
        with pytest.raises(ConflictError, match=f"'{name}' is already running"):
            claim_instance_id(store, name, SYSTEM_CLOCK, session_timeout_s=-5)
    other.close()
    claim_instance_id(store, name, SYSTEM_CLOCK, session_timeout_s=0)


def test_where_the_deep_store_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "controller.conf"
    file.write_text(
        "controller.data.dir=s3://bucket/deep\ncontroller.local.temp.dir=/scratch\n"
        "pinot.controller.storage.factory.class.s3=org.apache.pinot.plugin.filesystem.S3PinotFS\n"
        "pinot.controller.storage.factory.s3.region=eu-west-1\npinot.controller.storage.factory.s3.accessKey=me\n"
        "pinot.controller.storage.factory.s3.secretKey=hush\npinot.controller.storage.factory.s3.disableAcl=true\n"
        "pinot.controller.storage.factory.s3.endpoint=http://minio:9000\n"
        "pinot.controller.segment.fetcher.protocols=file,http,s3\n"
        "pinot.controller.segment.fetcher.s3.class=org.apache.pinot.common.utils.fetcher.PinotFSSegmentFetcher\n"
        "pinot.controller.segment.fetcher.retry.count=7\npinot.controller.segment.fetcher.s3.retry.wait.ms=20\n"
    )
    settings = load_settings(Role.CONTROLLER, file, ZK)
    assert (settings.deep_store, settings.data_dir) == ("s3://bucket/deep", Path("/scratch"))
    assert settings.storage.options_of("s3a") == {
        "config_kwargs": {"retries": {"max_attempts": 0}}, "key": "me", "secret": "hush",
        "client_kwargs": {"region_name": "eu-west-1", "endpoint_url": "http://minio:9000"},
    }  # fmt: skip
    assert settings.storage.protocols == {"file", "http", "s3"}
    assert (settings.storage.retries_of("http").attempts, settings.storage.retries_of("s3").wait_s) == (7, 0.02)
    assert "hush" not in repr(settings)
    assert not caplog.records

    given = load_settings(Role.CONTROLLER, None, {**ZK, "deep_store": "/nfs/deep"})
    assert (given.deep_store, given.data_dir) == ("/nfs/deep", Path("/nfs/deep"))
    both = load_settings(Role.CONTROLLER, None, {**ZK, "deep_store": "s3://b", "data_dir": Path("/d")})
    assert (both.deep_store, both.data_dir) == ("s3://b", Path("/d"))
    file.write_text(
        "pinot.zk.server=zk\npinot.server.instance.dataDir=/d\npinot.server.instance.segment.store.uri=s3://b/x\n"
    )
    assert load_settings(Role.SERVER, file, {}).deep_store == "s3://b/x"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pinot.server.segment.fetcher.retry.count=hush", "'pinot.server.segment.fetcher.retry.count' must be a number"),
        ("pinot.server.storage.factory.class.x=no.such:Thing", "'pinot.server.storage.factory.class.x' must name a class"),
        ("pinot.server.storage.factory.hdfs.hadoop.conf.path=/none", "no core-site.xml or hdfs-site.xml"),
    ],
)
def test_storage_keys_that_cannot_be(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "server.conf"
    file.write_text(f"pinot.zk.server=zk\npinot.server.instance.dataDir=/d\n{text}\n")
    with pytest.raises(InvalidConfigError, match=problem):
        load_settings(Role.SERVER, file, {})


def test_a_minion_starts_without_the_engine() -> None:
    """It has a quarter of the memory of other roles until it has a task."""
    code = "import sys, gamay.roles.minion_process\nprint({'numba', 'sqlglot', 'pyspark', 'duckdb'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert told.stdout.strip() == "set()"
