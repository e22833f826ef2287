"""Client of the minions' HTTP interfaces, for the progress of subtasks."""

import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from gamay.base.errors import GamayError, NotFoundError
from gamay.cluster.records.registry import Registry

_TIMEOUT_S = 10.0


class Minions:
    """HTTP client of the cluster's minions.

    auth_token: the `Authorization` header that they demand; empty for none. tls: the context that verifies their
    certificates.
    """

    def __init__(self, registry: Registry, auth_token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self._registry = registry
        self._tls = tls
        self._auth_token = auth_token

    def progress(self, minion: str, subtasks: Sequence[str]) -> dict[str, Any]:
        """Return the progress of a minion's subtasks, by name. Raises NotFoundError if it does not answer."""
        return self._ask(minion, "/tasks/subtask/progress", {"subtaskNames": ",".join(subtasks)})

    def all_progress(self, minion: str, state: str) -> dict[str, Any]:
        """Return the progress of all current and past subtasks of a minion. Raises NotFoundError."""
        return self._ask(minion, "/tasks/subtask/state/progress", {"subTaskState": state})

    def _ask(self, minion: str, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        from gamay.client.http import HttpService  # `gamay.connect` starts without it

        found = self._registry.get_instance(minion)
        if found is None or found.port <= 0:
            raise NotFoundError(f"minion '{minion}' is not known")
        token, verify = self._auth_token or None, self._tls or True
        try:
            with HttpService(found.url, auth_token=token, timeout_s=_TIMEOUT_S, verify=verify) as service:
                return dict(service.json("GET", path, params=params))
        except GamayError as error:
            raise NotFoundError(f"minion '{minion}' does not answer: {error}") from error
