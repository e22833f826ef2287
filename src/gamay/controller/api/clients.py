"""The HTTP client with which a controller asks other roles on behalf of its own clients."""

import ssl

import httpx

KEPT_S = 2.0
"""How long an idle connection is kept: less than the 5 s of the roles, since a request on a connection they close
fails."""


def role_client(tls: ssl.SSLContext | None, timeout_s: float) -> httpx.AsyncClient:
    """Return a client. tls: the context that verifies the other roles' certificates, None for the system's
    authorities."""
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEPT_S)
    return httpx.AsyncClient(timeout=timeout_s, limits=limits, trust_env=False, verify=tls or True)
