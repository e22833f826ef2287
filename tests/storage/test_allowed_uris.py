"""Which URIs users may have a controller open, and the errors if Hadoop's library is missing."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.storage.addresses import check_public_address
from gamay.storage.allowed_uris import ALLOWED_URIS, AllowedUris
from gamay.storage.fetchers import Fetchers
from gamay.storage.filesystems import open_filesystem
from gamay.storage.settings import StorageSettings, storage_settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("allowed", "allowed2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a b.txt").write_text(name)
    (tmp_path / "allowed" / "link.txt").symlink_to(tmp_path / "allowed2" / "a b.txt")
    return tmp_path


def is_allowed(allowed: AllowedUris, uri: str) -> bool:
    try:
        return bool(allowed.check(uri))
    except InvalidConfigError:
        return False


@pytest.mark.parametrize("uri", ["\0", "/a/\0.csv", "file:///a%00.csv", "/" + "a" * 5000])
def test_what_no_file_can_be_called_is_refused(uri: str) -> None:
    with pytest.raises(InvalidConfigError, match="Unsupported URI"):
        AllowedUris(["file:///a/"]).check(uri)


def test_nothing_is_allowed_by_default(folder: Path) -> None:
    files = [f"file://{folder}/allowed/a%20b.txt", str(folder / "allowed" / "a b.txt"), "a.txt"]
    for uri in (
        *files,
        "s3://bucket/key",
        "http://localhost/x",
        "ftp://host/x",
        "github://a:b@/c",
        "deepstore:t/s",
        "memory://x",
    ):
        assert not is_allowed(AllowedUris(), uri), uri
        with pytest.raises(InvalidConfigError, match="Unsupported URI"):
            Fetchers().check(uri)


@pytest.mark.parametrize("slash", ["", "/"])
def test_files_below_an_allowed_folder_can_be_named(folder: Path, slash: str) -> None:
    found = AllowedUris(["file:///nothing", f"file://{folder}/allowed{slash}"])
    inside = str(folder / "allowed" / "a b.txt")
    assert found.check(f"file://{folder}/allowed/a%20b.txt") == found.check(inside) == inside
    beside = "allowed2/a%20b.txt"
    for uri in (beside, f"allowed/../{beside}", f"allowed/%2e%2e/{beside}", "allowed/link.txt"):
        assert not is_allowed(found, f"file://{folder}/{uri}")
    assert AllowedUris(["file"]).check(f"file://{folder}/allowed/link.txt") == str(folder / "allowed2" / "a b.txt")


def test_uris_begin_with_what_is_allowed_once_they_are_taken_apart() -> None:
    allowed = AllowedUris(["s3://bucket/in", "https://example.com/", "abfs://box@account/"], ["gs"])
    for uri in ("s3://bucket/in/a.csv", "s3://bucket/in", "https://EXAMPLE.com/a?b=c", "https://example.com:443/a",
                "https://user:word@example.com/a", "gs://any/where", "abfs://box@account/a"):  # fmt: skip
        assert allowed.check(uri) == uri
    for uri in (
        "s3://bucket/inside", "s3://bucket/in/../out", "s3://bucket/in/%2e%2e/out", "s3://bucket2/in/a", "s3a://bucket/in/a",
        "http://example.com/", "https://example.com:8443/", "https://example.com@evil.net/", "https://evil.net/example.com/",
        "https://example.com.evil.net/", "https://evil.net\\@example.com/", "https://example.com\n/", "https://[::1/",
        "abfs://other@account/a", "simplecache::file:///etc/passwd", "s3://bucket/in/a::file:///etc/passwd",
        "https://example.com:x/", "file:///etc/passwd",
    ):  # fmt: skip
        assert not is_allowed(allowed, uri), uri


@pytest.mark.parametrize("text", ["/data", "file://relative", "s3:", "https://", "https://a/?b=c", "a b"])
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match=ALLOWED_URIS):
        storage_settings("controller", {ALLOWED_URIS: text})


def test_file_systems_that_the_operator_has_set_up_are_allowed() -> None:
    settings, _ = storage_settings("controller", {"pinot.controller.storage.factory.s3.region": "eu"})
    for uri in ("s3://bucket/a", "s3a://bucket/a"):
        Fetchers(settings).check(uri)
    Fetchers(deep_store="gs://bucket/store").check("gs://bucket/a")
    for deep_store in (None, "/data/store", "file:///data/store"):
        with pytest.raises(InvalidConfigError, match=ALLOWED_URIS):
            Fetchers(deep_store=deep_store).check("file:///data/store/a")


def test_servers_have_no_such_setting() -> None:
    assert storage_settings("server", {ALLOWED_URIS: "file"})[1] == frozenset()


class Web:
    """A web server of this machine: `/to?URL` redirects, `/large` is endless, other paths show what they were asked with."""

    def __init__(self) -> None:
        web = self
        self.asked: list[tuple[str, str | None]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked.append((self.path, self.headers["Authorization"]))
                where, _, target = self.path.partition("?")
                self.send_response(302 if where == "/to" else 200)
                if where == "/to":
                    self.send_header("Location", target)
                self.end_headers()
                try:
                    while where == "/large":
                        self.wfile.write(bytes(1000))
                except OSError:
                    return
                self.wfile.write(b"content")

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    yield made
    made.close()


@pytest.fixture
def other() -> Iterator[Web]:
    made = Web()
    yield made
    made.close()


def test_a_host_that_is_named_may_be_anywhere(web: Web, tmp_path: Path) -> None:
    fetchers = Fetchers(StorageSettings(allowed_uris=(web.url,)))
    fetchers.fetch_named(f"{web.url}/a", tmp_path / "a")
    fetchers.fetch_named(f"{web.url}/to?/b", tmp_path / "b")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"content", b"content")


def test_redirects_lead_to_nothing_that_is_not_allowed(web: Web, other: Web, tmp_path: Path) -> None:
    fetchers = Fetchers(StorageSettings(allowed_uris=(web.url,)))
    for target in (other.url, "file:///etc/passwd", "ftp://localhost/a"):
        with pytest.raises((InvalidConfigError, OSError)):
            fetchers.fetch_named(f"{web.url}/to?{target}", tmp_path / "a")
    assert other.asked == []
    with pytest.raises(OSError, match="redirects"):
        fetchers.fetch_named(f"{web.url}/to?/to?/to?/to?/to?/to?/to?/to?/a", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_credentials_stay_with_their_host(web: Web, other: Web, tmp_path: Path) -> None:
    settings = StorageSettings(allowed_uris=(web.url, other.url), tokens={"http": "Basic secret"})
    Fetchers(settings).fetch_named(f"{web.url}/to?{web.url}/to?{other.url}/a", tmp_path / "a")
    assert [token for _, token in web.asked] == ["Basic secret", "Basic secret"]
    assert [token for _, token in other.asked] == [None]


def test_a_scheme_alone_allows_public_addresses_only(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetchers = Fetchers(StorageSettings(allowed_uris=("http",)))
    port = web.url.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0"):
        with pytest.raises((InvalidConfigError, OSError), match=r"is not public|cannot fetch"):
            fetchers.fetch_named(f"http://{host}:{port}/a", tmp_path / "a")
    assert web.asked == []
    # the name is answered otherwise when it is looked up once more
    monkeypatch.setattr("gamay.storage.files.check_public", lambda _: None)
    with pytest.raises(InvalidConfigError, match=r"127\.0\.0\.1, which is not public"):
        fetchers.fetch_named(f"http://localhost:{port}/a", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_what_a_record_names_may_lead_to_public_servers_only(web: Web, other: Web, tmp_path: Path) -> None:
    Fetchers().fetch_recorded(f"{web.url}/to?/a", tmp_path / "a")
    with pytest.raises(InvalidConfigError, match="is not public"):
        Fetchers().fetch_recorded(f"{web.url}/to?{other.url}/a", tmp_path / "b")
    assert other.asked == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1",
     "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    with pytest.raises(InvalidConfigError, match="is not public"):
        check_public_address(address, "host")


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
def test_addresses_that_are_public(address: str) -> None:
    assert socket.getaddrinfo(address, 80)
    check_public_address(address, "host")


def test_size_and_time_are_limited(web: Web, tmp_path: Path) -> None:
    for key, found in (("gamay.ingest.bytes.max", r"100000 bytes"), ("gamay.ingest.seconds.max", "1 s")):
        value = "100000" if "bytes" in key else "1"
        settings, used = storage_settings("controller", {ALLOWED_URIS: web.url, key: value})
        assert used == {ALLOWED_URIS, key}
        with pytest.raises(InvalidConfigError, match=f"{found} that {key} allows"):
            Fetchers(settings).fetch_named(f"{web.url}/large", tmp_path / "a")
        with pytest.raises(InvalidConfigError, match=f"'{key}' must be a whole number of at least 1"):
            storage_settings("controller", {key: "none"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        OSError("Unable to load libhdfs\ndlopen(libhdfs.so) failed"),
        OSError("Environment variable CLASSPATH not set!"),
        OSError("Unable to load libjvm: no such file"),
        ImportError("pyarrow"),
    ],
)
def test_hdfs_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def missing(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(InvalidConfigError, match=r"install Hadoop's native library \(libhdfs.* and Java") as raised:
        open_filesystem("hdfs://namenode:8020/x")
    assert "\n" not in str(raised.value)


def test_a_file_system_that_does_not_answer_is_no_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise OSError("Connection refused")

    monkeypatch.setattr("fsspec.core.url_to_fs", away)
    with pytest.raises(OSError, match="Connection refused"):
        open_filesystem("hdfs://namenode:8020/x")
