"""The job's command line."""

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
    assert main([str(job), "--values", f"out={tmp_path}/out"]) == 0
    assert "3 segments pushed to" in capsys.readouterr().out
    (files / "a.csv").write_text("day,city\nx,y\n")
    assert main([str(job), "--values", f"out={tmp_path}/out2"]) == 1
    assert "a.csv, record 1: column 'day': 'x' is not a valid INT" in capsys.readouterr().err
