"""A table as a DataFrame, and the job's command line."""

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.spark import build_segments, read_table
from gamay.spark.__main__ import main
from gamay.spark.build import InputFiles

pytestmark = pytest.mark.spark


def test_read_table(spark, schema, table_config, files, tmp_path, controller):
    report = build_segments(
        spark, schema, table_config(), InputFiles(str(files), global_sequence=True), str(tmp_path / "out")
    )
    controller.documents["/tables/trips/schema"] = schema.to_json()
    controller.segments = [s.name for s in report.segments]
    for segment in report.segments:
        controller.files[f"/segments/trips/{segment.name}"] = segment.uri
    frame = read_table(spark, controller.url, "trips")
    assert frame.count() == 600
    row = frame.where("city = 'city3' AND fare = 0.75").collect()[0]
    assert (row.day, row.tags) == (19000 + 111 % 60, ["t0", "u"])
    assert read_table(spark, controller.url, "trips", columns=["fare"]).columns == ["fare"]
    with pytest.raises(InvalidConfigError, match="Did you mean 'city'"):
        read_table(spark, controller.url, "trips", columns=["ctiy"])


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
