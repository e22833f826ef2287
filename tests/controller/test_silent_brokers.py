"""A controller's responses if brokers do not answer a forwarded request."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request

from gamay.controller.api.querying.brokers import BrokerError, Brokers


@pytest.mark.parametrize(
    ("listens", "timeout_ms", "said"),
    [(True, 50, "does not answer within 50 ms"), (False, 60_000, "does not answer: Connect")],
)
def test_a_broker_that_does_not_answer_is_unavailable(listens: bool, timeout_ms: int, said: str) -> None:
    services: Any = SimpleNamespace(context=SimpleNamespace(registry=None, tls=None))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        if not listens:
            silent.close()
        broker: Any = SimpleNamespace(id="Broker_b", url=f"http://127.0.0.1:{port}")
        request = Request({"type": "http", "headers": []})
        with pytest.raises(BrokerError, match=said) as raised:
            asyncio.run(Brokers(services).ask(request, "GET", broker, "/queries", {}, timeout_ms))
    assert raised.value.http_status == 503
