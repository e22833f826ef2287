"""The requests that the clients send, and how they interpret the responses."""

import json
import subprocess
import sys

import httpx
import pytest

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError, NotFoundError
from gamay.client.controller import ControllerClient
from gamay.client.http import ServiceError, service_url


@pytest.fixture
def controller():
    """A client whose requests are recorded and answered by `answers[(method, path)]`, 404 where there is none."""

    class Recorder:
        def __init__(self):
            self.requests = []
            self.answers = {}
            self.client = ControllerClient(
                "localhost:9000", auth_token="Basic x", transport=httpx.MockTransport(self.answer)
            )

        def answer(self, request):
            request.read()
            self.requests.append(request)
            status, body = self.answers.get((request.method, request.url.path), (404, {"code": 404, "error": "not here"}))
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return httpx.Response(status, content=content)

    return Recorder()


def test_paths_and_parameters(controller):
    controller.answers = {
        ("POST", "/schemas"): (200, {"status": "t successfully added"}),
        ("GET", "/segments/t"): (200, [{"OFFLINE": ["a", "b"]}, {"REALTIME": ["c"]}]),
        ("GET", "/tables"): (200, {"tables": ["t"]}),
        ("POST", "/segments/t/startReplaceSegments"): (200, {"segmentLineageEntryId": "id"}),
        ("DELETE", "/segments/t/a b/c"): (200, {"status": "Segment deleted"}),
    }
    client = controller.client
    assert client.add_schema({"schemaName": "t"}) == "t successfully added"
    assert client.list_segments("t", "OFFLINE") == ["a", "b", "c"]
    assert client.list_tables() == ["t"]
    assert client.start_replace("t", ["a"], ["b"]) == "id"
    assert client.delete_segment("t", "a b/c") == "Segment deleted"
    urls = [str(r.url) for r in controller.requests]
    assert urls == [
        "http://localhost:9000/schemas?override=true&force=false",
        "http://localhost:9000/segments/t?type=OFFLINE",
        "http://localhost:9000/tables",
        "http://localhost:9000/segments/t/startReplaceSegments?type=OFFLINE&forceCleanup=true",
        "http://localhost:9000/segments/t/a%20b%2Fc",
    ]
    assert controller.requests[0].headers["authorization"] == "Basic x"
    assert json.loads(controller.requests[3].content) == {"segmentsFrom": ["a"], "segmentsTo": ["b"]}


def test_uploads(controller, tmp_path):
    controller.answers = {("POST", "/v2/segments"): (200, {"status": "Successfully uploaded"})}
    archive = tmp_path / "s.tar.gz"
    archive.write_bytes(b"content" * 1000)
    controller.client.upload_tar("t", archive)
    controller.client.upload_uri("t", "s3://b/s.tar.gz", table_type="REALTIME")
    controller.client.upload_metadata("t", archive, "s3://b/s.tar.gz", copy_to_deep_store=True)
    tar, uri, metadata = controller.requests
    assert b'filename="s.tar.gz"' in tar.content
    assert archive.read_bytes() in tar.content
    assert dict(tar.url.params) == {
        "tableName": "t", "tableType": "OFFLINE", "allowRefresh": "true", "enableParallelPushProtection": "false",
    }  # fmt: skip
    assert (uri.headers["upload_type"], uri.headers["download_uri"]) == ("URI", "s3://b/s.tar.gz")
    assert (uri.url.params["tableType"], uri.content) == ("REALTIME", b"")
    assert metadata.headers["upload_type"] == "METADATA"
    assert metadata.headers["copy_segment_to_deep_store"] == "true"


def test_download(controller, tmp_path):
    controller.answers = {("GET", "/segments/t/a"): (200, b"x" * 3_000_000)}
    assert controller.client.download_segment("t", "a", tmp_path / "a").stat().st_size == 3_000_000
    with pytest.raises(NotFoundError, match="not here"):
        controller.client.download_segment("t", "b", tmp_path / "b")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidConfigError),
        (404, NotFoundError),
        (409, ConflictError),
        (403, GamayError),
        (500, ServiceError),
        (503, ServiceError),
    ],
)
def test_errors_carry_the_servers_sentence(controller, status, kind):
    controller.answers = {("GET", "/schemas"): (status, {"code": status, "error": "this is why"})}
    with pytest.raises(kind, match=r"^this is why$") as raised:
        controller.client.list_schemas()
    assert raised.value.http_status == status


def test_errors_without_a_sentence(controller):
    controller.answers = {("GET", "/schemas"): (502, b"<html>bad gateway</html>")}
    with pytest.raises(ServiceError, match="was answered with 502 Bad Gateway"):
        controller.client.list_schemas()
    controller.answers = {("GET", "/schemas"): (200, b"<html>")}
    with pytest.raises(GamayError, match="not JSON"):
        controller.client.list_schemas()


def test_nobody_there():
    with ControllerClient("http://127.0.0.1:1", timeout_s=1) as client:
        assert client.health() is False
        with pytest.raises(ServiceError, match=r"GET http://127\.0\.0\.1:1/tables got no answer") as raised:
            client.list_tables()
    assert raised.value.status is None


def test_live_brokers(controller):
    one = {"instanceName": "Broker_b_1", "host": "b", "port": 1, "grpcPort": -1}
    controller.answers = {("GET", "/v2/brokers"): (200, {"tenants": {"T": [one]}, "tables": {"t_OFFLINE": [one]}})}
    assert controller.client.live_brokers() == ({"T": [one]}, {"t_OFFLINE": [one]})
    assert str(controller.requests[0].url) == "http://localhost:9000/v2/brokers?state=ONLINE"


@pytest.mark.parametrize(
    ("text", "url", "credentials"),
    [
        ("b:1", "https://b:1", None),
        ("http://b:1/", "http://b:1", None),
        ("b", "https://b", None),
        ("http://[::1]:8099/pinot/", "http://[::1]:8099/pinot", None),
        ("a%40b:c%3Ad@h:1", "https://h:1", ("a@b", "c:d")),
        ("http://a@h", "http://h", ("a", "")),
    ],
)
def test_addresses(text, url, credentials):
    assert service_url(text, "https") == (url, credentials)


@pytest.mark.parametrize("text", ["", "http://", "ftp://h", "h:port", "h:99999", "h h", "http://[::1", "//"])
def test_what_is_no_address(text):
    with pytest.raises(InvalidConfigError, match="is not the address of a service"):
        service_url(text)


def test_clients_start_without_the_engine():
    heavy = {"httpx", "numba", "numpy", "pandas", "polars", "pyarrow", "pyspark"}
    code = f"import sys, gamay.client; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"
