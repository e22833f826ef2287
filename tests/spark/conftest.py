"""One SparkSession for all tests of this folder, a recording controller, and small files."""

import threading
import time

import pytest
import uvicorn
from benchmarks.cluster.ports import free_port
from starlette.applications import Starlette
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session whose Java process also serves Spark Connect, at the port in its settings."""
    from gamay.spark.session.local import local_session

    plugin = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}
    configs = {**plugin, "spark.connect.grpc.binding.port": str(free_port())}
    session = local_session("gamay-tests", cores=2, work_dir=tmp_path_factory.mktemp("spark"), configs=configs)
    yield session
    session.stop()


SCHEMA = {
    "schemaName": "trips",
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}


@pytest.fixture
def schema():
    return Schema.from_json(SCHEMA).value


@pytest.fixture
def table_config():
    def make(ingestion=None, **indexing):
        document = TableConfig.offline("trips").to_json()
        document["segmentsConfig"]["timeColumnName"] = "day"
        document["ingestionConfig"] = ingestion or {}
        document["tableIndexConfig"].update(indexing)
        return TableConfig.from_json(document).value

    return make


@pytest.fixture
def files(tmp_path):
    """Three CSV files of 200 rows each; every tenth row has no fare."""
    folder = tmp_path / "in"
    (folder / "more").mkdir(parents=True)
    for number, name in enumerate(["a.csv", "b.csv", "more/c.csv"]):
        lines = ["day,city,fare,tags"]
        for i in range(200):
            row = number * 200 + i
            fare = "" if row % 10 == 0 else f"{row / 4}"
            lines.append(f"{19000 + (row * 37) % 60},city{row % 7},{fare},t{row % 3};u")
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


class FakeController:
    """A controller that answers like a real one, records its requests, and fails the first `failures` uploads with 503."""

    def __init__(self):
        self.requests = []
        self.uploads = []
        self.failures = 0
        self.refusal = None
        self.segments = ["old_1"]
        self.documents = {}
        self.files = {}
        self.before = None  # awaited before an answer
        self.loses_ends = False  # replacements end, but no answer comes

    async def upload(self, request):
        if self.failures > 0:
            self.failures -= 1
            return JSONResponse({"code": 503, "error": "try again"}, 503)
        if self.refusal:
            return JSONResponse({"code": 400, "error": self.refusal}, 400)
        body = b""
        if request.headers.get("content-type", "").startswith("multipart"):
            form = await request.form()
            body = await next(iter(form.values())).read()
        self.uploads.append((dict(request.query_params), dict(request.headers), body))
        return JSONResponse({"status": "ok"})

    async def other(self, request):
        self.requests.append((request.method, request.url.path, dict(request.query_params), await request.body()))
        path = request.url.path
        if self.before is not None:
            await self.before()
        if path in self.files:
            return FileResponse(self.files[path])
        if path in self.documents:
            return JSONResponse(self.documents[path])
        if path.endswith("/startReplaceSegments"):
            return JSONResponse({"segmentLineageEntryId": "entry"})
        if path.endswith(("/endReplaceSegments", "/revertReplaceSegments")):
            status = {"endReplaceSegments": 503, "revertReplaceSegments": 409}[path.rpartition("/")[2]]
            return JSONResponse({"code": status, "error": "lost"}, status) if self.loses_ends else Response()
        if request.method == "GET" and path.startswith("/segments/"):
            return JSONResponse([{"OFFLINE": self.segments}])
        return JSONResponse({"code": 404, "error": f"no {path}"}, 404)


@pytest.fixture
def controller():
    fake = FakeController()
    routes = [
        Route("/v2/segments", fake.upload, methods=["POST"]),
        Route("/segments/batchUpload", fake.upload, methods=["POST"]),
        Route("/{path:path}", fake.other, methods=["GET", "POST"]),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    fake.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield fake
    server.should_exit = True
    thread.join()


@pytest.fixture
def job(controller, schema, table_config, files, tmp_path):
    """Make job specs of a table, from the first two of the files."""
    controller.documents = {
        "/tables/trips": {"OFFLINE": table_config().to_json()},
        "/tables/trips/schema": schema.to_json(),
    }

    def make(job_type, **changes):
        return {
            "jobType": job_type,
            "inputDirURI": str(files),
            "includeFileNamePattern": "glob:**/[ab].csv",
            "outputDirURI": str(tmp_path / "out"),
            "recordReaderSpec": {"dataFormat": "csv"},
            "tableSpec": {"tableName": "trips"},
            "pinotClusterSpecs": [{"controllerURI": controller.url}],
            **changes,
        }

    return make
