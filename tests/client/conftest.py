import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.waiting import PATIENCE_S

import gamay
from gamay.embedded import EmbeddedCluster

TYPES = ["INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BOOLEAN", "TIMESTAMP", "STRING", "JSON", "BYTES", "UUID"]
ROWS: list[dict[str, Any]] = [
    {
        "c_int": -7,
        "c_long": 2**62 + 1,
        "c_float": 1.5,
        "c_double": 2.25,
        "c_big_decimal": "12345678901234567890.5",
        "c_boolean": True,
        "c_timestamp": 1_700_000_000_123,
        "c_string": 'Zürich\'s "best" 100% \\ \n?',
        "c_json": '{"a":1}',
        "c_bytes": b"\x01\xff",
        "c_uuid": "123e4567-e89b-12d3-a456-426614174000",
        "mv_int": [1, 2],
        "mv_string": ["a", "b"],
        "mv_timestamp": [0, 1],
    },
    {"c_int": 8, "c_string": "x", "c_timestamp": 253_402_300_800_000},
]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A running cluster with the table `every`, which has a column of every type, and nulls in its second row."""
    folder: Path = tmp_path_factory.mktemp("client")
    fields: list[dict[str, Any]] = [{"name": f"c_{t.lower()}", "dataType": t} for t in TYPES]
    fields += [{"name": f"mv_{t.lower()}", "dataType": t, "singleValueField": False} for t in ("INT", "STRING", "TIMESTAMP")]
    with gamay.connect(folder, threads=1) as database:
        config = {"tableIndexConfig": {"nullHandlingEnabled": True}}
        database.create_table("every", pa.Table.from_pylist(ROWS), {"dimensionFieldSpecs": fields}, config)
    with EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False) as running:
        yield running


@pytest.fixture(scope="session")
def broker_url(cluster: EmbeddedCluster) -> str:
    return cluster.broker_url


@pytest.fixture
def dead_url() -> Iterator[str]:
    """The URL of a port that is reserved, and on which no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


class Stub:
    """A server with answers chosen by a test: `answer` takes the path, headers and parsed body of a request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.answer: Callable[[str, Any], tuple[int, bytes] | None] = lambda path, body: (200, answer_bytes([[1]]))
        self.released = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                stub.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                made = stub.answer(self.path, body)
                if made is None:  # hang up without a word
                    self.close_connection = True
                    return
                self.send_response(made[0])
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(made[1])))
                self.end_headers()
                self.wfile.write(made[1])

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def hang(self, path: str, body: Any) -> tuple[int, bytes]:
        """Answer only when the test is over."""
        self.released.wait(PATIENCE_S)
        return 200, b"{}"

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def answer_bytes(rows: list[list[Any]], types: list[str] | None = None, **more: Any) -> bytes:
    types = types or ["LONG"] * len(rows[0])
    names = [f"c{i}" for i in range(len(types))]
    table = {"dataSchema": {"columnNames": names, "columnDataTypes": types}, "rows": rows}
    counters = {"numServersQueried": 1, "numServersResponded": 1, "timeUsedMs": 3}
    return json.dumps({"resultTable": table, "exceptions": [], **counters, **more}).encode()


@pytest.fixture
def answer() -> Callable[..., bytes]:
    """Return a function that builds the bytes of a broker's answer."""
    return answer_bytes


@pytest.fixture
def stubs() -> Iterator[Callable[[], Stub]]:
    """Return a function that starts a server with answers of the test's own."""
    running: list[Stub] = []

    def start() -> Stub:
        running.append(Stub())
        return running[-1]

    yield start
    for one in running:
        one.stop()
