"""Log lines as text and as JSON."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.base.logs import JsonFormatter, LogFormat, about, name_instance, write_log


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Give the root logger one handler, as in a new process, and restore its own handlers afterwards."""
    root = logging.getLogger()
    before, level, text = root.handlers[:], root.level, io.StringIO()
    root.handlers[:] = [logging.StreamHandler(text)]
    yield text
    root.handlers[:] = before
    root.setLevel(level)


def test_a_line_is_an_object(lines: io.StringIO) -> None:
    write_log(LogFormat.JSON, "broker")
    name_instance("Broker_b1_8099")
    log = logging.getLogger("gamay.broker.answer.runner")
    log.warning('query %d: "%s"\nfailed', 7, "SELECT 'ü'", extra=about(7, "trips_OFFLINE"))
    log.error("the retention of table %s could not be applied: %s", "trips_REALTIME", "no leader")
    try:
        raise ValueError("odd")
    except ValueError:
        log.exception("it failed")
    first, second, third = [json.loads(line) for line in lines.getvalue().splitlines()]
    time = first.pop("time")
    assert time.endswith("Z")
    assert len(time) == len("2026-11-21T21:45:48.123Z")
    assert first == {
        "level": "WARN", "role": "broker", "instance": "Broker_b1_8099", "logger": "gamay.broker.answer.runner",
        "message": 'query 7: "SELECT \'ü\'"\nfailed', "requestId": "7", "table": "trips_OFFLINE",
    }  # fmt: skip
    assert second["table"] == "trips_REALTIME"
    assert "requestId" not in second
    assert "ValueError: odd" in third["exception"]


def test_all_roles_in_one_process_are_told_by_their_packages() -> None:
    record = logging.LogRecord("gamay.server.instance.instance", logging.INFO, "", 1, "x", (), None)
    assert json.loads(JsonFormatter().format(record))["role"] == "server"
    record = logging.LogRecord("kazoo.client", logging.INFO, "", 1, "x", None, None)
    assert "role" not in json.loads(JsonFormatter().format(record))


def test_formats_have_names() -> None:
    assert LogFormat.of("JSON") is LogFormat.JSON
    with pytest.raises(InvalidConfigError, match="must be text or json"):
        LogFormat.of("jsn")
