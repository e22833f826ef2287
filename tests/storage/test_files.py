"""Files that appear completely or not at all."""

import http.server
import threading

import pytest

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.storage import files


def test_atomic_write_replaces(tmp_path):
    path = tmp_path / "x"
    files.atomic_write(path, b"old")
    files.atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_that_fails_leaves_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "x"
    files.atomic_write(path, b"old")

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space left"):
        files.atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}"])
def test_put_and_fetch_local(tmp_path, form):
    source = tmp_path / "source"
    source.write_bytes(b"abc")
    remote = tmp_path / "a" / "b" / "remote"
    files.put(source, form.format(remote))
    assert remote.read_bytes() == b"abc"
    files.fetch(form.format(remote), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"abc"


def test_names_that_mean_something_elsewhere_are_plain_names_here(tmp_path):
    source = tmp_path / "a::b*[1]#x?y=%41"
    source.write_bytes(b"abc")
    files.fetch(str(source), tmp_path / "1")
    files.fetch(source.as_uri(), tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes() == b"abc"
    files.put(source, (tmp_path / "c d").as_uri())
    assert (tmp_path / "c d").read_bytes() == b"abc"


def test_put_and_fetch_by_scheme(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"abc")
    files.put(source, "memory://bucket/key")
    files.fetch("memory://bucket/key", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"abc"


@pytest.fixture
def web(tmp_path):
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "x.tar.zst").write_bytes(b"abc" * 100_000)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path / "web"))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_remove(tmp_path):
    for root in (str(tmp_path / "a"), f"file://{tmp_path}/b", "memory://removed/c"):
        source = tmp_path / "source"
        source.write_bytes(b"x")
        for name in ("one", "folder/two"):
            files.put(source, f"{root}/{name}")
        files.remove(f"{root}/one")
        files.remove(f"{root}/one")  # it is gone already
        with pytest.raises(NotFoundError):
            files.fetch(f"{root}/one", tmp_path / "back")
        files.fetch(f"{root}/folder/two", tmp_path / "back")
        files.remove(root)
        with pytest.raises(NotFoundError):
            files.fetch(f"{root}/folder/two", tmp_path / "back")


def test_fetch_by_http(tmp_path, web):
    files.fetch(f"{web}/x.tar.zst", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"abc" * 100_000
    with pytest.raises(NotFoundError, match=r"no file at http://127\.0\.0\.1"):
        files.fetch(f"{web}/absent", tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("uri", ["/none/at/all", "file:///none/at/all", "memory://none"])
def test_what_is_not_there_is_named(tmp_path, uri):
    with pytest.raises(NotFoundError, match="there is no file at"):
        files.fetch(uri, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_web_server_that_does_not_answer_may_be_tried_again(tmp_path):
    with pytest.raises(OSError, match="cannot fetch"):
        files.fetch("http://127.0.0.1:1/x", tmp_path / "x")
    with pytest.raises(InvalidConfigError, match="is read-only"):
        files.put(tmp_path, "http://127.0.0.1:1/x")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_scheme_is_named_with_the_nearest(tmp_path):
    with pytest.raises(InvalidConfigError, match=r"s33://bucket/key.*Did you mean 's3"):
        files.fetch("s33://bucket/key", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_publish_folder_gives_the_name_at_once(tmp_path):
    (tmp_path / "tmp" / "sub").mkdir(parents=True)
    (tmp_path / "tmp" / "sub" / "x").write_bytes(b"1")
    files.publish_folder(tmp_path / "tmp", tmp_path / "final")
    assert (tmp_path / "final" / "sub" / "x").read_bytes() == b"1"
    assert not (tmp_path / "tmp").exists()
