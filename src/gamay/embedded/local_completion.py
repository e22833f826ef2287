"""Segment completion between a server and a controller in one process, by method calls."""

import shutil
from pathlib import Path

from gamay.base.errors import GamayError
from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, Status
from gamay.roles.controller_role import ControllerRole

_FAILED = CompletionResponse(Status.FAILED)


class LocalCompletion:
    """A `CompletionClient` of the controller in the same process."""

    def __init__(self, controller: ControllerRole) -> None:
        self._controller = controller

    def ask(
        self, call: Call, request: CompletionRequest, file: Path | None = None, controller_url: str | None = None
    ) -> CompletionResponse:
        """Return the answer. The controller gets copies of files, as it would over a network."""
        realtime = self._controller.realtime
        if file is None:
            return realtime.completion.ask(call, request)
        try:
            with self._controller.uploads.scratch(f"take in segment '{request.segment}'") as scratch:
                copy = Path(shutil.copy2(file, scratch / file.name))
                if call is Call.COMMIT_END_WITH_METADATA:
                    return realtime.commit_end(request, copy, scratch)
                return (
                    realtime.upload(request, copy, scratch)
                    if call is Call.UPLOAD
                    else realtime.commit(request, copy, scratch)
                )
        except (GamayError, OSError):
            return _FAILED
