"""Connections of a controller to other roles."""

import uvicorn

from gamay.controller.api.clients import KEPT_S


def test_connections_are_let_go_before_roles_close_them() -> None:
    """httpx keeps them for 5 s by default, as uvicorn does, so that a request at that moment failed."""
    assert uvicorn.Config("none").timeout_keep_alive > 2 * KEPT_S
