"""The wire format of the segment completion protocol: requests of servers to the lead controller, and its responses.

Requests are HTTP calls to `/<call>` with parameters in the query; every answer is HTTP 200 with one JSON object. Both
sides use this module, so that they cannot diverge. Offsets are transferred as text, which only a stream can
interpret.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

import orjson

from gamay.base.errors import GamayError

# Times of the protocol; see the decision table in `gamay.controller.completion.machine`.
MAX_HOLD_MS = 3_000  # how long a server waits after HOLD, NOT_LEADER or FAILED before it asks again
REQUEST_TIMEOUT_S = 10.0
UPLOAD_TIMEOUT_S = 300.0
DEFAULT_EXTRA_TIME_S = 120  # the default of a lease extension
FIRST_EXTENSION_FRACTION = 0.9  # of the build time granted; the server then asks for more
EXTENSION_INTERVAL_S = 108.0

SEGMENT_PART = "segment"
PEER_SCHEME = "peer:"
"""The scheme of a `location` without a copy in the deep store: the servers that have the segment are its only copies."""
METADATA_PART = "metadata.json"  # of segmentCommitEndWithMetadata: the `metadata.json` of the built segment


class Call(Enum):
    """The calls of a server; the value is the last part of the URL. GET, except those with a body."""

    CONSUMED = "segmentConsumed"
    STOPPED_CONSUMING = "segmentStoppedConsuming"
    EXTEND_BUILD_TIME = "extendBuildTime"
    COMMIT_START = "segmentCommitStart"
    UPLOAD = "segmentUpload"  # POST, multipart: the archive; any controller takes it
    COMMIT_END = "segmentCommitEnd"  # POST: the controller reads the metadata from the archive at `location`
    COMMIT_END_WITH_METADATA = "segmentCommitEndWithMetadata"  # POST, multipart: METADATA_PART
    COMMIT = "segmentCommit"  # POST, multipart: the archive; start, upload and end in one step
    BUILD_FAILURE = "segmentBuildDeterministicFailure"

    @property
    def http_method(self) -> str:
        """Return GET or POST."""
        with_body = (Call.UPLOAD, Call.COMMIT_END, Call.COMMIT_END_WITH_METADATA, Call.COMMIT)
        return "POST" if self in with_body else "GET"


class Status(Enum):
    """The controller's instruction to a server, or the result of the server's call."""

    COMMIT = "COMMIT"  # build the segment and commit it
    HOLD = "HOLD"  # wait MAX_HOLD_MS and ask again
    CATCH_UP = "CATCH_UP"  # consume up to the offset of the response, then ask again
    DISCARD = "DISCARD"  # the rows differ from those committed: wait for ONLINE, then download
    KEEP = "KEEP"  # the rows are exactly those committed: build an own copy
    NOT_LEADER = "NOT_LEADER"  # ask the lead controller
    FAILED = "FAILED"  # not done; ask segmentConsumed again
    COMMIT_CONTINUE = "COMMIT_CONTINUE"  # continue with the upload
    UPLOAD_SUCCESS = "UPLOAD_SUCCESS"  # stored at the response's segment_location, not yet committed
    COMMIT_SUCCESS = "COMMIT_SUCCESS"  # the segment is committed
    PROCESSED = "PROCESSED"  # recorded
    NOT_SENT = "NOT_SENT"  # never on the wire: the request did not reach a controller


class StopReason(Enum):
    """Why a server stopped consuming a segment: its end criterion."""

    ROW_LIMIT = "rowLimit"
    TIME_LIMIT = "timeLimit"
    END_OF_PARTITION_GROUP = "endOfPartitionGroup"
    FORCE_COMMIT = "forceCommitMessageReceived"
    INDEX_CAPACITY = "indexCapacityThresholdBreached"


class MalformedMessageError(GamayError):
    """A request without a parameter that it needs, or an invalid response."""

    http_status = 400


# field of a request -> name of its parameter; numbers are sent only if positive, strings only if not empty
_TEXTS = {
    "instance": "instance",
    "segment": "name",
    "offset": "streamPartitionMsgOffset",
    "reason": "reason",
    "location": "location",
}
_NUMBERS = {
    "row_count": "rowCount",
    "memory_used_bytes": "memoryUsedBytes",
    "segment_size_bytes": "segmentSizeBytes",
    "build_time_ms": "buildTimeMillis",
    "wait_time_ms": "waitTimeMillis",
    "extra_time_s": "extraTimeSec",
}


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A server's request, the same for each call.

    segment: LLC name. offset: the next offset that the server would consume, i.e. the exclusive end of its rows.
    reason: value of StopReason, or for segmentStoppedConsuming the text of the error. row_count: rows indexed.
    location: the URI in the response to segmentUpload, or another URI where the server stored the archive.
    """

    instance: str
    segment: str
    offset: str = ""
    reason: str = ""
    row_count: int = 0
    memory_used_bytes: int = 0
    segment_size_bytes: int = 0
    build_time_ms: int = 0
    wait_time_ms: int = 0
    extra_time_s: int = 0
    location: str = ""

    def to_params(self) -> dict[str, str]:
        """Return the parameters of the query."""
        texts = {name: text for field, name in _TEXTS.items() if (text := getattr(self, field))}
        return texts | {name: str(number) for field, name in _NUMBERS.items() if (number := getattr(self, field)) > 0}

    @classmethod
    def from_params(cls, call: Call, params: Mapping[str, str]) -> "CompletionRequest":
        """Parse the parameters of a query. Raises MalformedMessageError for a missing or non-numeric one."""
        values: dict[str, Any] = {field: params.get(name, "") for field, name in _TEXTS.items()}
        for field, name in _NUMBERS.items():
            text = params.get(name) or "0"
            try:
                values[field] = int(text)
            except ValueError:
                raise MalformedMessageError(f"{call.value}: parameter {name} must be a number, not '{text}'") from None
        request = cls(**values)
        for field in _required(call):
            if not values[field]:
                name = {**_TEXTS, **_NUMBERS}[field]
                raise MalformedMessageError(f"{call.value}: parameter {name} is missing")
        return request


def _required(call: Call) -> tuple[str, ...]:
    match call:
        case Call.BUILD_FAILURE:
            return ("instance", "segment", "row_count")
        case Call.COMMIT_END | Call.COMMIT_END_WITH_METADATA:
            return ("instance", "segment", "offset", "location")
        case _:
            return ("instance", "segment", "offset")


@dataclass(frozen=True, slots=True)
class CompletionResponse:
    """The controller's response.

    offset: the offset to reach with CATCH_UP, the committed offset with COMMIT, KEEP and DISCARD; None without
    meaning. build_time_s: with COMMIT, the time before the server must extend its lease; otherwise -1.
    split_commit: whether to commit in the three calls (start, upload, end) or in the single call `segmentCommit`.
    controller_url: with COMMIT, the URL for the upload. segment_location: with UPLOAD_SUCCESS, the value for `location`.
    """

    status: Status
    offset: str | None = None
    build_time_s: int = -1
    split_commit: bool = True
    controller_url: str | None = None
    segment_location: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object; `controllerVipUrl` and `segmentLocation` are left out when None."""
        document: dict[str, Any] = {
            "status": self.status.value,
            "streamPartitionMsgOffset": self.offset,
            "buildTimeSec": self.build_time_s,
            "isSplitCommitType": self.split_commit,
        }
        if self.controller_url is not None:
            document["controllerVipUrl"] = self.controller_url
        if self.segment_location is not None:
            document["segmentLocation"] = self.segment_location
        return document

    @classmethod
    def from_bytes(cls, body: bytes) -> "CompletionResponse":
        """Parse a response. Raises MalformedMessageError."""
        try:
            document = orjson.loads(body)
            return cls(
                Status(document["status"]),
                document.get("streamPartitionMsgOffset"),
                int(document.get("buildTimeSec", -1)),
                bool(document.get("isSplitCommitType", True)),
                document.get("controllerVipUrl"),
                document.get("segmentLocation"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MalformedMessageError(f"not a response of the completion protocol: {body[:200]!r} ({error})") from error


assert {field.name for field in fields(CompletionRequest)} == {*_TEXTS, *_NUMBERS}
