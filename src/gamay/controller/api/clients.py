"""The HTTP client by which a controller asks other roles in place of its own clients."""

import ssl

import httpx

KEPT_S = 2.0
"""How long an idle connection is kept: less than roles keep theirs (5 s), since a request on one that they close fails."""


def role_client(tls: ssl.SSLContext | None, timeout_s: float) -> httpx.AsyncClient:
    """Return a client. tls: what the others are checked against, None for the system's authorities."""
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEPT_S)
    return httpx.AsyncClient(timeout=timeout_s, limits=limits, trust_env=False, verify=tls or True)
