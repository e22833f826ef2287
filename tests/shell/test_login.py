"""Clusters with TLS and login: profiles, passwords, tokens, certificates; and the messages when they are wrong."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

import gamay
from gamay.base.tls import TlsSettings
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import read_access
from gamay.shell.profiles import Profile

trustme = pytest.importorskip("trustme")

Sql = Callable[..., tuple[int, str, str]]
ACCESS = """
controller.admin.access.control.factory.class=BasicAuthAccessControlFactory
controller.admin.access.control.principals=ann
controller.admin.access.control.principals.ann.password=s3cret
pinot.broker.access.control.class=BasicAuthAccessControlFactory
pinot.broker.access.control.principals=ann
pinot.broker.access.control.principals.ann.password=s3cret
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("login")


@pytest.fixture(scope="module")
def guarded(home: Path) -> Iterator[EmbeddedCluster]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(home / "ca.pem")
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(home / "own.pem")
    (home / "access.properties").write_text(ACCESS, "utf-8")
    with gamay.connect(home / "data", threads=1) as db:
        db.create_table("t", {"a": [1, 2, 3]})
    tls = TlsSettings(home / "own.pem", authorities=home / "ca.pem")
    access = read_access(home / "access.properties")
    with EmbeddedCluster(home / "data", 0, 0, 0, threads=1, warm_up=False, access=access, tls=tls) as cluster:
        yield cluster


COUNT = "SELECT COUNT(*) AS n FROM t"


def test_a_login_reaches_controller_and_brokers(
    guarded: EmbeddedCluster, home: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = Profile(user="ann", tls_ca=str(home / "ca.pem"))
    monkeypatch.setenv("GAMAY_PASSWORD", "s3cret")
    for place in (guarded.controller_url, guarded.broker_url):
        assert sql(COUNT, place=place, given=login, output="csv") == (0, "n\n3\n", "")
    status, _, err = sql(COUNT, place=guarded.broker_url, given=Profile(user="ann"))
    assert status == 1
    assert "certificate verify failed" in err
    assert sql(COUNT, place=guarded.broker_url, given=Profile(tls_ca=str(home / "none.pem")))[0] == 2
    monkeypatch.setenv("GAMAY_PASSWORD", "wr0ng")
    status, _, err = sql(COUNT, place=guarded.controller_url, given=login)
    assert (status, "denies access to user ann" in err, "wr0ng" in err) == (1, True, False)
    status, _, err = sql(COUNT, place=guarded.controller_url, given=Profile(tls_ca=str(home / "ca.pem")))
    assert "set GAMAY_TOKEN" in err


def test_a_token_of_a_profile(
    guarded: EmbeddedCluster, home: Path, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "c.toml"
    monkeypatch.setenv("GAMAY_CONFIG", str(config))
    token = "Basic YW5uOnMzY3JldA=="
    text = f"[profiles.x]\nurl = '{guarded.controller_url}'\ntoken = '{token}'\ntls_ca = '{home / 'ca.pem'}'\n"
    config.write_text(text, "utf-8")
    config.chmod(0o600)
    assert sql(COUNT, place="@x", output="csv") == (0, "n\n3\n", "")


def test_a_folder_that_is_served_is_asked_with_the_login_given(
    guarded: EmbeddedCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAMAY_PASSWORD", "s3cret")
    command = [
        sys.executable,
        "-m",
        "gamay.cli",
        "sql",
        str(home / "data"),
        "--user",
        "ann",
        "--tls-ca",
        str(home / "ca.pem"),
    ]
    told = subprocess.run([*command, "-c", COUNT, "--output", "json"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == [{"n": 3}]
