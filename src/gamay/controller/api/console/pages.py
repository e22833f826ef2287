"""The console's page and files, with headers that confine it to what it needs."""

import secrets

from fastapi import Request
from starlette.responses import Response

from gamay.base.errors import NotFoundError
from gamay.console.files import get_asset, page
from gamay.controller.api.guarded_router import GuardedRouter

_FOREVER = "public, max-age=31536000, immutable"  # changed content has another name
_NONCE_BYTES = 16
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def page_router() -> GuardedRouter:
    """Return the routes; they need no log-in, for the page asks for it."""
    router = GuardedRouter(tags=["Console"])

    @router.get("/", summary="Show the web console", include_in_schema=False)
    @router.get("/index.html", summary="Show the web console", include_in_schema=False)
    @router.get("/query", summary="Show the web console", include_in_schema=False)  # the path of older versions
    @router.get("/console", summary="Show the web console")
    def show() -> Response:
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        headers = _HEADERS | {"Content-Security-Policy": policy(nonce), "Cache-Control": "no-store"}
        return Response(page(nonce), headers=headers, media_type="text/html")

    @router.get("/console/assets/{name}", summary="Get a file of the web console")
    def asset(request: Request, name: str) -> Response:
        found = get_asset(name)
        if found is None:
            raise NotFoundError(f"the web console has no file '{name}'")
        headers = _HEADERS | {"Cache-Control": _FOREVER, "ETag": found.etag, "Vary": "Accept-Encoding"}
        if found.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        accepted = {part.partition(";")[0].strip() for part in request.headers.get("accept-encoding", "").split(",")}
        if found.compressed is not None and "gzip" in accepted:
            return Response(found.compressed, headers=headers | {"Content-Encoding": "gzip"}, media_type=found.content_type)
        return Response(found.content, headers=headers, media_type=found.content_type)

    return router


def policy(nonce: str) -> str:
    """Return the content security policy: the page loads its own files and style sheets with the nonce, and is never
    framed."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' 'nonce-{nonce}'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "worker-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )
