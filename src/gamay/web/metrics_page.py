"""`GET /metrics` of every role, in the format that the client accepts."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from gamay.base.metrics import Measure, exposition


def metrics_page(request: Request, measures: Iterable[Measure]) -> Response:
    """Return the current values of all measures."""
    content, content_type = exposition(measures, request.headers.get("accept", ""))
    return Response(content, headers={"Content-Type": content_type})
