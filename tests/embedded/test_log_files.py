"""Log files: their locations, and that a process serves its own and no other files."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gamay.base import log_files
from gamay.base.errors import InvalidConfigError
from gamay.base.log_files import LOG_FILES
from gamay.base.logs import LogFormat
from gamay.cluster.records.records import Role
from gamay.roles.settings import load_settings

NAME = "Broker_localhost_8099"
_log = logging.getLogger("gamay.tested.files")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(log_files, "FILE_BYTES_MAX", 300)
    logs = tmp_path / "logs"
    LOG_FILES.begin(logs, NAME, LogFormat.JSON, "broker")
    (logs / "Broker_localhost_80990.log").write_text("of another process")
    (logs / f"{NAME}.log.gz").write_text("of somebody else")
    (logs / f"{NAME}.log.7").mkdir()
    (tmp_path / "secret").write_text("secret")
    for number in range(4):
        _log.warning("line %d of trips", number)
    yield logs
    LOG_FILES.end()


def test_files_are_listed_and_sent(api: Any, folder: Path) -> None:
    names = [f"{NAME}.log", f"{NAME}.log.1", f"{NAME}.log.2"]
    server = api.cluster.core.server.id
    for rest in (api.controller, api.broker, api.server, api.minion):  # all in one process here
        found = rest.get("/loggers/files").json()
        assert found[: len(names)] == names
    lines = []
    for name in found[::-1]:
        answers = [
            api.server.get("/loggers/download", params={"filePath": name}),
            api.controller.get("/loggers/download", params={"filePath": name}),
            api.controller.get(f"/loggers/instances/{server}/download", params={"filePath": name}),
        ]
        assert {answer.content for answer in answers} == {(folder / name).read_bytes()}
        assert all(f'filename="{name}"' in answer.headers["content-disposition"] for answer in answers)
        lines += [json.loads(line) for line in answers[0].text.splitlines()]
    assert [line["message"] for line in lines if line["logger"] == _log.name] == [f"line {n} of trips" for n in range(4)]
    assert {line["instance"] for line in lines} == {NAME}
    assert api.controller.get(f"/loggers/instances/{server}").json() == found
    assert set(map(tuple, api.controller.get("/loggers/instances").json().values())) == {tuple(found)}


def test_other_files_are_not_sent(api: Any, folder: Path) -> None:
    others = ["Broker_localhost_80990.log", f"{NAME}.log.gz", f"{NAME}.log.7", "nothing", ""]
    outside = [
        "../secret",
        "/etc/passwd",
        f"./{NAME}.log",
        f"../logs/{NAME}.log",
        "%2e%2e/secret",
        str(folder / f"{NAME}.log"),
    ]
    for rest, address in (
        (api.broker, "/loggers/download"),
        (api.controller, "/loggers/download"),
        (api.controller, f"/loggers/instances/{api.cluster.core.server.id}/download"),
    ):
        for name in (*others, *outside):
            answer = rest.get(address, params={"filePath": name})
            assert answer.status_code == 404, answer.text
            assert "is no log file of this process" in answer.json()["error"]


def test_a_file_names_the_folder(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(f"pinot.broker.logger.root.dir={tmp_path}/logs\npinot.zk.server=zk\n")
    assert load_settings(Role.BROKER, config, {}).log_dir == tmp_path / "logs"
    with pytest.raises(InvalidConfigError, match="cannot write log files in"):
        LOG_FILES.begin(config, NAME, LogFormat.TEXT, "broker")
