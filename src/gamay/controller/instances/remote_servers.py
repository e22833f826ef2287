"""Client of servers in other processes, over their HTTP interfaces."""

import ssl
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gamay.base.errors import NotFoundError
from gamay.client.http import HttpService, ServiceError
from gamay.cluster.records.llc_name import Place
from gamay.cluster.records.registry import Registry
from gamay.storage.files import Access, fetch

_TIMEOUT_S = 30.0


class HttpServers:
    """HTTP client of servers that implements `gamay.controller.context.Servers`. Addresses come from the instances'
    records."""

    def __init__(self, registry: Registry, auth_token: str = "", tls: ssl.SSLContext | None = None) -> None:
        """Create the client. auth_token: the `Authorization` header that servers demand; empty for none. tls: the
        context that verifies their certificates; None for the system's authorities.
        """
        self._tls = tls
        self._registry = registry
        self._auth_token = auth_token
        self._lock = threading.Lock()
        self._services: dict[str, HttpService] = {}

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            services, self._services = self._services, {}
        for service in services.values():
            service.close()

    def segment_sizes(self, instance: str, table: str) -> Mapping[str, int]:
        try:
            answer = self._ask(instance, f"/tables/{quote(table)}/size")
        except NotFoundError:
            self._check_alive(instance)
            return {}
        return {entry["segmentName"]: entry["diskSizeInBytes"] for entry in answer["segments"]}

    def segment_details(self, instance: str, table: str, segment: str, columns: Sequence[str]) -> dict[str, Any]:
        path = f"/tables/{quote(table)}/segments/{quote(segment, safe='')}/metadata"
        found: dict[str, Any] = self._ask(instance, path, params={"columns": list(columns)})
        return found

    def reload_progress(
        self, instance: str, table: str, segments: Sequence[str], since_ms: int
    ) -> tuple[int, Mapping[str, str]]:
        answer = self._ask(
            instance,
            f"/tables/{quote(table)}/segments/reloadProgress",
            method="POST",
            json={"segments": list(segments), "sinceMs": since_ms},
        )
        return answer["loaded"], answer["failures"]

    def stale_segments(self, instance: str, table: str) -> Sequence[str]:
        stale: list[str] = self._ask(instance, f"/tables/{quote(table)}/segments/stale")["segments"]
        return stale

    def segment_errors(self, instance: str, table: str) -> Mapping[str, str]:
        errors: dict[str, str] = self._ask(instance, f"/tables/{quote(table)}/segments/errors")["errors"]
        return errors

    def valid_doc_counts(self, instance: str, table: str, segments: Sequence[str], kind: str) -> Sequence[Mapping[str, Any]]:
        found: list[dict[str, Any]] = self._ask(
            instance, f"/tables/{quote(table)}/validDocIdsMetadata", method="POST", params={"validDocIdsType": kind},
            json={"segments": list(segments)},
        )  # fmt: skip
        return found

    def upsert_keys(self, instance: str, table: str) -> Mapping[str, int]:
        found = self._ask(instance, f"/tables/{quote(table)}/metadata")["upsertPartitionToServerPrimaryKeyCountMap"]
        return {partition: counts[instance] for partition, counts in found.items()}

    def disk_usage(self, instance: str) -> tuple[int, int]:
        found = self._ask(instance, "/instance/diskUtilization")
        return found["totalSpaceBytes"], found["usedSpaceBytes"]

    def fetch_segment(self, instance: str, table: str, segment: str, target: Path) -> None:
        url = self._service(instance).url
        try:
            access = Access({"Authorization": self._auth_token} if self._auth_token else {}, self._tls)
            fetch(f"{url}/segments/{quote(table)}/{quote(segment, safe='')}", target, access)
        except OSError as error:
            raise NotFoundError(f"server '{instance}' does not answer: {error}") from error

    def consuming_segments(self, instance: str, table: str) -> Sequence[Mapping[str, Any]]:
        found: list[dict[str, Any]] = self._ask(instance, f"/tables/{quote(table)}/consumingSegmentsInfo")
        return found

    def consumption(self, instance: str, table: str) -> Mapping[str, Any]:
        found: dict[str, Any] = self._ask(instance, f"/tables/{quote(table)}/realtimeStatus")
        return found

    def dead_letters(self, instance: str, table: str, limit: int) -> Sequence[Mapping[str, Any]]:
        found: list[dict[str, Any]] = self._ask(instance, f"/tables/{quote(table)}/deadLetters", params={"limit": limit})
        return found

    def replayable(self, instance: str, table: str, limit: int) -> tuple[Sequence[Place], bool]:
        found = self._ask(instance, f"/tables/{quote(table)}/deadLetters/replayable", params={"limit": limit})
        return [(message["partition"], message["offset"]) for message in found["messages"]], found["more"]

    def find_dead_letters(
        self, instance: str, table: str, places: Collection[Place]
    ) -> tuple[Sequence[Mapping[str, Any]], Mapping[Place, str]]:
        wanted = [{"partition": partition, "offset": offset} for partition, offset in places]
        path = f"/tables/{quote(table)}/deadLetters/find"
        found = self._ask(instance, path, method="POST", json={"messages": wanted})
        return found["deadLetters"], {(m["partition"], m["offset"]): m["replayedTo"] for m in found["replayed"]}

    def note_replayed(self, instance: str, table: str, replayed: Mapping[Place, str]) -> None:
        told = [{"partition": p, "offset": offset, "replayedTo": to} for (p, offset), to in replayed.items()]
        self._ask(instance, f"/tables/{quote(table)}/deadLetters/replayed", method="POST", json={"messages": told})

    def _ask(self, instance: str, path: str, method: str = "GET", **options: Any) -> Any:
        try:
            return self._service(instance).json(method, path, **options)
        except ServiceError as error:
            raise NotFoundError(f"server '{instance}' does not answer: {error}") from error

    def _check_alive(self, instance: str) -> None:
        """Raise NotFoundError if the server does not answer; if it does, it only lacks the table."""
        self._ask(instance, "/tables")

    def _service(self, instance: str) -> HttpService:
        found = self._registry.get_instance(instance)
        if found is None:
            raise NotFoundError(f"server '{instance}' is not known")
        url = found.url
        with self._lock:
            service = self._services.get(url)
            if service is None:
                service = self._services[url] = HttpService(
                    url, auth_token=self._auth_token or None, timeout_s=_TIMEOUT_S, verify=self._tls or True
                )
            return service
