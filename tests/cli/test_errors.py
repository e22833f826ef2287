"""A user's mistake ends with a one-sentence message and status 1."""

import sys

import pyarrow as pa
import pytest

import gamay
from gamay import cli

NOBODY = "http://localhost:1"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command line in this process; return its status, output and errors."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["gamay", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return command


def test_services_that_are_down(run):
    for command in (["query", "SELECT 1", "--broker", NOBODY], ["admin", "tables", "--controller", NOBODY]):
        status, _, errors = run(*command)
        assert status == 1
        assert errors.startswith("gamay: ")
        assert NOBODY in errors
        assert errors.count("\n") == 1


def test_sql_errors_point_at_the_place(run, tmp_path):
    status, _, errors = run("query", "SELECT nope FRM t", "--data-dir", tmp_path)
    assert status == 1
    assert "line 1, column 17" in errors
    assert errors.rstrip().endswith("^")


def test_a_folder_is_asked_without_a_cluster(run, tmp_path):
    with gamay.connect(tmp_path) as database:
        database.create_table("t", pa.table({"n": [1, 2]}))
    status, out, _ = run("query", "SELECT SUM(n) FROM t", "--data-dir", tmp_path, "--format", "csv")
    assert (status, out.splitlines()[1]) == (0, "3.0")
    status, _, errors = run("query", "SELECT 1", "--data-dir", tmp_path / "nowhere")
    assert (status, "no such folder" in errors, (tmp_path / "nowhere").exists()) == (2, True, False)


def test_segment_show(run, tmp_path):
    foreign = tmp_path / "notes.txt"
    foreign.write_text("no segment")
    truncated = tmp_path / "s.tar.zst"
    truncated.write_bytes(b"\x28\xb5\x2f\xfd\x04")
    for path, part in ((foreign, "neither"), (truncated, "truncated"), (tmp_path, "metadata.json is missing")):
        status, _, errors = run("segment", "show", path)
        assert status == 1
        assert part in errors
    status, _, errors = run("segment", "show", tmp_path / "nowhere")
    assert (status, "does not exist" in errors) == (1, True)


def test_segment_show_compares_checksums(run, tmp_path):
    with gamay.connect(tmp_path) as database:
        database.create_table("t", pa.table({"n": list(range(100))}))
    (columns,) = tmp_path.rglob("columns.bin")
    status, out, _ = run("segment", "show", columns.parent)
    assert (status, "100 rows" in out, out.endswith("all checksums match\n")) == (0, True, True)
    content = bytearray(columns.read_bytes())
    content[len(content) // 2] ^= 1
    columns.write_bytes(content)
    status, out, errors = run("segment", "show", columns.parent)
    assert (status, "100 rows" in out, "all checksums match" in out) == (1, True, False)
    assert "of column 'n'" in errors


def test_jobs_that_cannot_be(run, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("jobType: SegmentCreation\ninputDirURl: /in\ntableSpec: {tableName: t}\n")
    status, _, errors = run("ingest", job)
    assert status == 1
    assert "Did you mean 'inputDirURI'" in errors
    status, _, errors = run("ingest", tmp_path / "nope.yaml")
    assert (status, "does not exist" in errors) == (1, True)
    status, _, errors = run("ingest", job, "--value", "x")
    assert (status, "expected name=text" in errors) == (1, True)


def test_json_files_that_are_none(run, tmp_path):
    broken = tmp_path / "schema.json"
    broken.write_text('{"schemaName": }')
    status, _, errors = run("admin", "add-table", "--schema-file", broken, "--table-config-file", broken)
    assert status == 1
    assert "line 1, column 16" in errors


def test_without_java(monkeypatch, tmp_path):
    from gamay.base.errors import InvalidConfigError
    from gamay.spark.session import gateway

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InvalidConfigError, match=r"no java on the PATH.*openjdk-17"):
        gateway.java_path()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidConfigError, match="has no bin/java"):
        gateway.java_path()


def test_a_job_type_that_does_not_exist(run, tmp_path):
    job = tmp_path / "job.properties"
    job.write_text("path.to.input=in\npath.to.output=out\nsegment.table.name=t\n")
    status, _, errors = run("ingest", job, "--job-type", "Foo")
    assert status == 1
    assert '"Foo" is not one of SegmentCreation' in errors


def test_ports_that_cannot_be(run, tmp_path):
    for ports, part in (
        (("99999", "0"), "port 99999"),
        (("18091", "18091"), "the broker cannot listen on port 18091 beside"),
    ):
        controller, broker = ports
        at = ["--controller-port", controller, "--broker-port", broker, "--server-port", "0"]
        status, _, errors = run("start", "all", "--data-dir", tmp_path, *at)
        assert (status, part in errors, errors.count("\n")) == (1, True, 1)
