"""A broker that shuts down answers running Flight SQL queries and redirects others."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.broker.flight.conftest import fill
from tests.waiting import PATIENCE_S, eventually

from gamay.broker.flight.messages import new, wrapped
from gamay.embedded import EmbeddedCluster

_SQL = "SELECT SUM(n) FROM trips"


class HeldQuery:
    """A running Flight query that ends when `goes_on` is set, or when it is cancelled."""

    def __init__(self, cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on, self.found = threading.Event(), list[Any]()
        self._begun = threading.Event()
        runner: Any = cluster._core.runner
        finish = runner.finish

        def held(pending: Any) -> Any:
            self._begun.set()
            while not (self.goes_on.wait(0.01) or pending.deadline.is_cancelled):
                pass
            return finish(pending)

        monkeypatch.setattr(runner, "finish", held)
        self._thread = threading.Thread(target=self._ask, args=(cluster,))
        self._thread.start()
        assert self._begun.wait(PATIENCE_S)

    def _ask(self, cluster: EmbeddedCluster) -> None:
        try:
            self.found.append(asked(cluster).column(0).to_pylist())
        except (flight.FlightError, pa.ArrowException) as error:
            self.found.append(error)

    def join(self) -> Any:
        self._thread.join(PATIENCE_S)
        return self.found[0]


def asked(cluster: EmbeddedCluster) -> pa.Table:
    with flight.connect(cluster.flight_url) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(wrapped(new("CommandStatementQuery", query=_SQL))))
        return client.do_get(info.endpoints[0].ticket).read_all()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    fill(tmp_path / "data")
    with EmbeddedCluster(tmp_path / "data", 0, 0, 0, flight_port=0, threads=1, warm_up=False) as found:
        yield found


def test_what_runs_is_answered_and_nothing_new_begins(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    query, port = HeldQuery(cluster, monkeypatch), cluster._flight
    assert port is not None
    stopping = threading.Thread(target=port.stop, args=(600,))
    stopping.start()
    assert port._server is not None
    eventually(lambda: port._server._asking._is_leaving, lambda: "it does not leave")  # type: ignore[union-attr]
    with pytest.raises(flight.FlightUnavailableError, match="The broker is shutting down"):
        asked(cluster)
    query.goes_on.set()
    assert query.join() == [6.0]
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()


def test_what_does_not_end_in_time_is_ended(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    query = HeldQuery(cluster, monkeypatch)
    assert cluster._flight is not None
    cluster._flight.stop(0)
    assert isinstance(query.join(), flight.FlightError)
