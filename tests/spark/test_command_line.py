"""The job's command line."""

import json

import pytest

from gamay.spark.__main__ import main

pytestmark = pytest.mark.spark


def test_command_line(spark, schema, table_config, files, tmp_path, controller, capsys):
    controller.documents = {"/tables/trips": table_config().to_json(), "/tables/trips/schema": schema.to_json()}
    job = tmp_path / "job.yaml"
    job.write_text(
        f"jobType: SegmentCreationAndTarPush\ninputDirURI: {files}\noutputDirURI: ${{out}}\n"
        "tableSpec: {tableName: trips}\n"
        f"pinotClusterSpecs: [{{controllerURI: '{controller.url}'}}]\n"
        "segmentNameGeneratorSpec: {configs: {use.global.directory.sequence.id: true}}\n"
    )
    summary = tmp_path / "summary.json"
    assert main([str(job), "--values", f"out={tmp_path}/out", "--summary", str(summary)]) == 0
    told = json.loads(summary.read_text())
    assert (told["state"], told["build"]["rowsWritten"], told["push"]["requests"]) == ("COMPLETED", 600, 3)
    assert sum(segment["rows"] for segment in told["build"]["segments"]) == 600
    assert told["build"]["bytes"] == sum(segment["bytes"] for segment in told["build"]["segments"])
    assert told["build"]["bytesRead"] == sum(file.stat().st_size for file in files.rglob("*.csv"))
    assert [one["rowsRead"] for one in told["build"]["inputs"]] == [200] * 3
    assert all(told["build"]["taskSeconds"][phase] > 0 for phase in ("read", "build", "publish"))
    assert "3 segments pushed to" in capsys.readouterr().out
    (files / "a.csv").write_text("day,city\nx,y\n")
    assert main([str(job), "--values", f"out={tmp_path}/out2", "--summary", str(summary)]) == 1
    told = json.loads(summary.read_text())
    assert told["state"] == "FAILED"
    assert "'x' is not a valid INT" in told["error"]
    assert "a.csv, record 1: column 'day': 'x' is not a valid INT" in capsys.readouterr().err
