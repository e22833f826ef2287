"""The controller's REST interface: schemas, tables, segments."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from gamay.client.http import HttpService, NotAnAnswerError, ServiceError, failure_of

UPLOAD_TIMEOUT_S = 600.0
_CHUNK_BYTES = 1 << 20


class ControllerClient(HttpService):
    """Client of a controller, to administer a cluster. Every method raises the errors of `HttpService.request`."""

    # -- service

    def health(self) -> bool:
        """Return whether the controller says that it is ready."""
        try:
            return self.request("GET", "/health").status_code == 200
        except ServiceError:
            return False

    def version(self) -> dict[str, str]:
        """Return the versions of the controller's components."""
        return dict(self.json("GET", "/version"))

    def cluster_status(self) -> tuple[str, list[dict[str, str]]]:
        """Return GOOD, DEGRADED or BAD, and what is wrong: `{"severity", "subject", "problem", "advice"}` each."""
        answer = self.json("GET", "/cluster/status")
        return str(answer["status"]), list(answer["problems"])

    def damaged_records(self) -> list[dict[str, str]]:
        """Return the records of the metadata store that cannot be read: `{"path", "problem", "remedy"}` each."""
        return list(self.json("GET", "/cluster/damage")["damaged"])

    def repair_record(self, path: str, document: Mapping[str, Any] | None = None) -> str:
        """Repair a damaged record; return what was done. document: its content, where it cannot be derived."""
        return self.status_text("POST", "/cluster/damage", params={"path": path}, json=document)

    def live_brokers(self) -> tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]]:
        """Return the live brokers by tenant and by typed table: `{"instanceName", "host", "port", "grpcPort"}`."""
        answer = self.json("GET", "/v2/brokers", params={"state": "ONLINE"})
        if not isinstance(answer, dict) or not {"tenants", "tables"} <= answer.keys():
            raise NotAnAnswerError(f"{self.url} did not answer with a list of brokers; is it a controller?")
        return dict(answer["tenants"]), dict(answer["tables"])

    # -- schemas

    def list_schemas(self) -> list[str]:
        """Return the names of all schemas."""
        return list(self.json("GET", "/schemas"))

    def schema(self, name: str) -> dict[str, Any]:
        """Return a schema's JSON."""
        return dict(self.json("GET", f"/schemas/{quote(name, safe='')}"))

    def add_schema(self, schema: Mapping[str, Any], *, override: bool = True, force: bool = False) -> str:
        """Create a schema, or replace it where it exists."""
        return self.status_text("POST", "/schemas", params={"override": override, "force": force}, json=schema)

    def update_schema(self, schema: Mapping[str, Any], *, reload: bool = False, force: bool = False) -> str:
        """Replace an existing schema."""
        path = f"/schemas/{quote(str(schema.get('schemaName')), safe='')}"
        return self.status_text("PUT", path, params={"reload": reload, "force": force}, json=schema)

    def delete_schema(self, name: str) -> str:
        """Delete a schema that no table uses."""
        return self.status_text("DELETE", f"/schemas/{quote(name, safe='')}")

    # -- tables

    def list_tables(self, table_type: str | None = None) -> list[str]:
        """Return the names of all tables; with a type, typed names of that type."""
        return list(self.json("GET", "/tables", params={"type": table_type})["tables"])

    def table_config(self, table: str, table_type: str | None = None) -> dict[str, Any]:
        """Return `{"OFFLINE": config, "REALTIME": config}`, those that exist."""
        return dict(self.json("GET", f"/tables/{quote(table, safe='')}", params={"type": table_type}))

    def table_schema(self, table: str) -> dict[str, Any]:
        """Return the JSON of a table's schema."""
        return dict(self.json("GET", f"/tables/{quote(table, safe='')}/schema"))

    def add_table(self, config: Mapping[str, Any]) -> str:
        """Create a table; its schema must exist."""
        return self.status_text("POST", "/tables", json=config)

    def update_table(self, config: Mapping[str, Any]) -> str:
        """Replace the config of an existing table."""
        return self.status_text("PUT", f"/tables/{quote(str(config.get('tableName')), safe='')}", json=config)

    def delete_table(self, table: str, table_type: str | None = None, retention: str | None = None) -> str:
        """Delete a table and its segments; the schema stays."""
        params = {"type": table_type, "retention": retention}
        return self.status_text("DELETE", f"/tables/{quote(table, safe='')}", params=params)

    def table_size(self, table: str) -> dict[str, Any]:
        """Return the sizes that the servers report."""
        return dict(self.json("GET", f"/tables/{quote(table, safe='')}/size"))

    # -- schema and tables in one document

    def list_table_configs(self) -> list[str]:
        """Return the names of the documents that `table_configs` returns."""
        return list(self.json("GET", "/tableConfigs"))

    def table_configs(self, table: str) -> dict[str, Any]:
        """Return `{"tableName", "schema", "offline", "realtime"}`."""
        return dict(self.json("GET", f"/tableConfigs/{quote(table, safe='')}"))

    def add_table_configs(self, document: Mapping[str, Any]) -> str:
        """Create schema and tables, all or nothing."""
        return self.status_text("POST", "/tableConfigs", json=document)

    def update_table_configs(self, document: Mapping[str, Any], *, reload: bool = False) -> str:
        """Replace schema and tables."""
        path = f"/tableConfigs/{quote(str(document.get('tableName')), safe='')}"
        return self.status_text("PUT", path, params={"reload": reload}, json=document)

    def delete_table_configs(self, table: str) -> str:
        """Delete tables and schema."""
        return self.status_text("DELETE", f"/tableConfigs/{quote(table, safe='')}")

    # -- segments: read

    def read_snapshot(self, table: str, table_type: str | None = None) -> dict[str, Any]:
        """Return a consistent snapshot for a full scan: schema, configs, segments with their replicas, servers."""
        path = f"/tables/{quote(table, safe='')}/readSnapshot"
        return dict(self.json("GET", path, params={"type": table_type}, timeout=UPLOAD_TIMEOUT_S))

    def list_segments(self, table: str, table_type: str | None = None, *, queried_only: bool = False) -> list[str]:
        """Return the names of a table's segments, of both types unless one is given.

        queried_only: leave out those that a replacement hides from queries.
        """
        params = {"type": table_type, "excludeReplacedSegments": "true" if queried_only else None}
        answer = self.json("GET", f"/segments/{quote(table, safe='')}", params=params)
        return [name for by_type in answer for names in by_type.values() for name in names]

    def segment_metadata(self, table: str, segment: str) -> dict[str, Any]:
        """Return the record of a segment: a flat map of strings."""
        return dict(self.json("GET", f"{_segment(table, segment)}/metadata"))

    def download_segment(self, table: str, segment: str, destination: Path) -> Path:
        """Stream the archive of a segment to a file."""
        with self._http.stream("GET", _segment(table, segment), timeout=UPLOAD_TIMEOUT_S) as response:
            if response.status_code >= 400:
                response.read()
                raise failure_of(response)
            with destination.open("wb") as file:
                for chunk in response.iter_bytes(_CHUNK_BYTES):
                    file.write(chunk)
        return destination

    # -- streams

    def realtime_status(self, table: str) -> dict[str, Any]:
        """Return the state of a table's consumption: offsets, lag, rates, memory, builds, errors."""
        return dict(self.json("GET", f"/tables/{quote(table, safe='')}/realtimeStatus"))

    def dead_letters(self, table: str, limit: int = 100) -> list[dict[str, Any]]:
        """Return the latest stream messages that could not become rows, and the offsets that the stream had lost."""
        answer = self.json("GET", f"/tables/{quote(table, safe='')}/deadLetters", params={"limit": limit})
        return list(answer["deadLetters"])

    def replay_dead_letters(
        self, table: str, messages: Sequence[tuple[int, str]] | None = None, *, again: bool = False
    ) -> dict[str, Any]:
        """Write dead letters to their stream again: the given (partition, offset), or all that can be and were not yet.

        again: include those that were already replayed. Return which were `replayed`, and which `notReplayed` and why.
        """
        path = f"/tables/{quote(table, safe='')}/deadLetters/replay"
        if messages is None:
            return dict(self.json("POST", path, params={"all": True}, timeout=UPLOAD_TIMEOUT_S))
        body = [{"partition": partition, "offset": offset} for partition, offset in messages]
        return dict(self.json("POST", path, params={"again": again}, json=body, timeout=UPLOAD_TIMEOUT_S))

    def pause_consumption(self, table: str, comment: str | None = None) -> dict[str, Any]:
        """Commit the consuming segments and stop consuming; return the pause status."""
        path = f"/tables/{quote(table, safe='')}/pauseConsumption"
        return dict(self.json("POST", path, params={"comment": comment}))

    def resume_consumption(self, table: str, consume_from: str | None = None) -> dict[str, Any]:
        """Resume consuming from lastConsumed (the default), smallest or largest; return the pause status."""
        path = f"/tables/{quote(table, safe='')}/resumeConsumption"
        return dict(self.json("POST", path, params={"consumeFrom": consume_from}))

    def force_commit(self, table: str) -> str:
        """Commit all consuming segments of a table as they are; return the id of the job."""
        return str(self.json("POST", f"/tables/{quote(table, safe='')}/forceCommit")["forceCommitJobId"])

    # -- segments: change

    def delete_segment(self, table: str, segment: str) -> str:
        """Delete one segment."""
        return self.status_text("DELETE", _segment(table, segment))

    def delete_segments(self, table: str, segments: Sequence[str]) -> str:
        """Delete the named segments."""
        return self.status_text("POST", f"/segments/{quote(table, safe='')}/delete", json=list(segments))

    def reload(self, table: str, segment: str | None = None) -> str:
        """Have servers reload a table's segments, or one of them, with the current config."""
        path = f"/segments/{quote(table, safe='')}" if segment is None else _segment(table, segment)
        return self.status_text("POST", f"{path}/reload")

    def upload_tar(self, table: str, archive: Path, *, headers: Mapping[str, str] | None = None, **options: Any) -> str:
        """Push a segment's archive (`.tar.gz` or `.tar.zst`); the file is streamed. headers: sent with it."""
        with archive.open("rb") as file:
            return self._upload(
                table, headers or {}, files={"segment": (archive.name, file, "application/octet-stream")}, **options
            )

    def upload_uri(self, table: str, uri: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> str:
        """Have the controller fetch a segment's archive from a URI and keep a copy. headers: sent with it."""
        told = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": uri, "Content-Type": "application/json"}
        return self._upload(table, {**(headers or {}), **told}, **options)

    def upload_metadata(
        self,
        table: str,
        metadata_archive: Path,
        uri: str,
        *,
        copy_to_deep_store: bool = False,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> str:
        """Add a segment by an archive of its metadata only; servers fetch the data from `uri`. headers: sent with it."""
        told = {**(headers or {}), "UPLOAD_TYPE": "METADATA", "DOWNLOAD_URI": uri}
        if copy_to_deep_store:
            told["COPY_SEGMENT_TO_DEEP_STORE"] = "true"
        with metadata_archive.open("rb") as file:
            part = (metadata_archive.name, file, "application/octet-stream")
            return self._upload(table, told, files={"segment": part}, **options)

    def upload_metadata_batch(
        self, table: str, archive: Path, *, table_type: str = "OFFLINE", copy_to_deep_store: bool = False
    ) -> str:
        """Add many segments by one archive: `all_segments_metadata`, and `<segment>.metadata.json` of each."""
        headers = {"UPLOAD_TYPE": "METADATA"}
        if copy_to_deep_store:
            headers["COPY_SEGMENT_TO_DEEP_STORE"] = "true"
        with archive.open("rb") as file:
            part = {"segments": (archive.name, file, "application/octet-stream")}
            params = {"tableName": table, "tableType": table_type}
            response = self.request(
                "POST", "/segments/batchUpload", params=params, headers=headers, files=part, timeout=UPLOAD_TIMEOUT_S
            )
            return response.text

    def _upload(
        self,
        table: str,
        headers: Mapping[str, str],
        *,
        table_type: str = "OFFLINE",
        allow_refresh: bool = True,
        parallel_push_protection: bool = False,
        **content: Any,
    ) -> str:
        params = {
            "tableName": table,
            "tableType": table_type,
            "allowRefresh": allow_refresh,
            "enableParallelPushProtection": parallel_push_protection,
        }
        return self.status_text(
            "POST", "/v2/segments", params=params, headers=dict(headers), timeout=UPLOAD_TIMEOUT_S, **content
        )

    # -- maintenance tasks

    def task_types(self) -> list[str]:
        """Return the task types that have a queue."""
        return list(self.json("GET", "/tasks/tasktypes"))

    def task_states(self, task_type: str) -> dict[str, str]:
        """Return the states of the tasks of a type, by name."""
        return dict(self.json("GET", f"/tasks/{quote(task_type, safe='')}/taskstates"))

    def task_counts(self, task_type: str, table: str | None = None) -> dict[str, dict[str, int]]:
        """Return the number of subtasks in each state, by task. table: a typed name."""
        return dict(self.json("GET", f"/tasks/{quote(task_type, safe='')}/taskcounts", params={"table": table}))

    def task_debug(self, name: str, verbosity: int = 1) -> dict[str, Any]:
        """Return the details of a task and its subtasks."""
        return dict(self.json("GET", f"/tasks/task/{quote(name, safe='')}/debug", params={"verbosity": verbosity}))

    def task_progress(self, name: str) -> dict[str, Any]:
        """Return the progress that minions reported, by subtask."""
        return dict(self.json("GET", f"/tasks/subtask/{quote(name, safe='')}/progress"))

    def schedule_tasks(self, task_type: str | None = None, table: str | None = None) -> dict[str, str]:
        """Schedule the tasks that table configs define; return their names by type, `generationErrors`,
        `schedulingErrors`."""
        params = {"taskType": task_type, "tableName": table}
        return dict(self.json("POST", "/tasks/schedule", params=params, timeout=UPLOAD_TIMEOUT_S))

    def execute_task(
        self, task_type: str, table: str, name: str = "", configs: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Run a task with the given configs; return its name by typed table."""
        body = {"taskType": task_type, "tableName": table, "taskName": name, "taskConfigs": dict(configs or {})}
        return dict(self.json("POST", "/tasks/execute", json=body, timeout=UPLOAD_TIMEOUT_S))

    def change_queue(self, task_type: str, change: str) -> str:
        """`stop` or `resume` the tasks of a type, or `cleanup` those that have ended."""
        return self.status_text("PUT", f"/tasks/{quote(task_type, safe='')}/{change}")

    def delete_queue(self, task_type: str, *, force: bool = False) -> str:
        """Delete the queue of a type with its tasks."""
        return self.status_text("DELETE", f"/tasks/{quote(task_type, safe='')}", params={"forceDelete": force})

    def delete_task(self, name: str) -> str:
        """Cancel a task and delete it."""
        return self.status_text("DELETE", f"/tasks/task/{quote(name, safe='')}")

    # -- replacing segments atomically

    def start_replace(
        self,
        table: str,
        segments_from: Iterable[str],
        segments_to: Iterable[str],
        table_type: str = "OFFLINE",
        *,
        of_table: bool = False,
    ) -> str:
        """Announce that segments will be replaced by others; return the id for `end_replace`.

        Unfinished replacements of the same segments are aborted. of_table: also those of the whole table.
        """
        body = {"segmentsFrom": list(segments_from), "segmentsTo": list(segments_to)}
        path = f"/segments/{quote(table, safe='')}/startReplaceSegments"
        params = {"type": table_type, "forceCleanup": True, "replacesTable": of_table or None}
        answer = self.json("POST", path, params=params, json=body)
        return str(answer["segmentLineageEntryId"])

    def end_replace(self, table: str, entry_id: str, table_type: str = "OFFLINE") -> None:
        """Atomically publish the new segments to queries and hide the old ones."""
        params = {"type": table_type, "segmentLineageEntryId": entry_id}
        path = f"/segments/{quote(table, safe='')}/endReplaceSegments"
        self.request("POST", path, params=params, timeout=UPLOAD_TIMEOUT_S)

    def end_replaces(
        self, table: str, entry_ids: Sequence[str], table_type: str = "OFFLINE", batch: tuple[str, int] | None = None
    ) -> None:
        """End several replacements atomically; they are merged into the entry of the first id.

        batch: the id of a streaming writer and the number of the batch that these publish. Raises ConflictError when that
        batch was published before, by other replacements.
        """
        path = f"/segments/{quote(table, safe='')}/endReplaceSegmentsTogether"
        body: dict[str, Any] = {"segmentLineageEntryIds": list(entry_ids)}
        if batch is not None:
            body["batch"] = {"writer": batch[0], "number": batch[1]}
        self.request("POST", path, params={"type": table_type}, json=body, timeout=UPLOAD_TIMEOUT_S)

    def lineage(self, table: str, table_type: str = "OFFLINE") -> dict[str, dict[str, Any]]:
        """Return the replacements of a table's segments by id: `{"segmentsFrom", "segmentsTo", "state", "timestamp"}`."""
        response = self.request("GET", f"/segments/{quote(table, safe='')}/lineage", params={"type": table_type})
        return dict(orjson.loads(response.content)["lineageEntries"]) if response.content else {}

    def shown_batches(self, table: str, table_type: str = "OFFLINE") -> dict[str, int]:
        """Return the number of the last batch that each streaming writer has published, by the writer's id."""
        response = self.request("GET", f"/segments/{quote(table, safe='')}/lineage", params={"type": table_type})
        return dict(orjson.loads(response.content).get("writers", {})) if response.content else {}

    def revert_replace(self, table: str, entry_id: str, table_type: str = "OFFLINE") -> None:
        """Abort an unfinished replacement. Raises ConflictError for one that has ended, which queries see."""
        params = {"type": table_type, "segmentLineageEntryId": entry_id, "forceRevert": True, "unlessEnded": True}
        self.request("POST", f"/segments/{quote(table, safe='')}/revertReplaceSegments", params=params)


def custom_map_headers(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an upload that add entries to the custom map of the segment's record."""
    if not entries:
        return {}
    modifier = orjson.dumps({"mapModifyMode": "UPDATE", "map": dict(entries)}).decode()
    return {"Pinot-SegmentZKMetadataCustomMapModifier": modifier}


def _segment(table: str, segment: str) -> str:
    return f"/segments/{quote(table, safe='')}/{quote(segment, safe='')}"
