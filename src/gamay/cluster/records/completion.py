"""The segment completion protocol on the wire: what servers ask the lead controller, and what it answers.

Requests are HTTP calls to `/<call>` with parameters in the query; every answer is HTTP 200 with one JSON object. Both ends
use this module, so that neither can drift. Offsets travel as text: only a stream knows what is in them.
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
DEFAULT_EXTRA_TIME_S = 120  # what a lease extension asks for unless it says otherwise
FIRST_EXTENSION_FRACTION = 0.9  # of the build time granted; the server then asks for more
EXTENSION_INTERVAL_S = 108.0

SEGMENT_PART = "segment"
PEER_SCHEME = "peer:"
"""Of a `location`: the archive was stored nowhere, the servers that have the segment are its copies."""
METADATA_PART = "metadata.json"  # of segmentCommitEndWithMetadata: the `metadata.json` of the built segment


class Call(Enum):
    """What a server can ask; the value is the last part of the URL. GET, except those with a body."""

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
    """What the controller wants a server to do next, or what became of what it did."""

    COMMIT = "COMMIT"  # build the segment and commit it
    HOLD = "HOLD"  # wait MAX_HOLD_MS and ask again
    CATCH_UP = "CATCH_UP"  # consume up to the offset of the response, then ask again
    DISCARD = "DISCARD"  # your rows differ from what was committed: wait for ONLINE, then download
    KEEP = "KEEP"  # you have exactly the rows that were committed: build your own copy
    NOT_LEADER = "NOT_LEADER"  # ask the lead controller
    FAILED = "FAILED"  # not done; ask segmentConsumed again
    COMMIT_CONTINUE = "COMMIT_CONTINUE"  # go on with the upload
    UPLOAD_SUCCESS = "UPLOAD_SUCCESS"  # stored at the response's segment_location, not yet committed
    COMMIT_SUCCESS = "COMMIT_SUCCESS"  # the segment is committed
    PROCESSED = "PROCESSED"  # noted
    NOT_SENT = "NOT_SENT"  # never on the wire: the request did not reach a controller


class StopReason(Enum):
    """Why a server stopped consuming a segment: its end criterion."""

    ROW_LIMIT = "rowLimit"
    TIME_LIMIT = "timeLimit"
    END_OF_PARTITION_GROUP = "endOfPartitionGroup"
    FORCE_COMMIT = "forceCommitMessageReceived"
    INDEX_CAPACITY = "indexCapacityThresholdBreached"


class MalformedMessageError(GamayError):
    """A request without a parameter that it needs, or a response that is none."""

    http_status = 400


# Field of a request -> name of its parameter; numbers are sent only when positive, texts only when not empty.
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
    """What a server says with each call.

    segment: LLC name. offset: where the server would consume next, that is the end (exclusive) of what it has.
    reason: value of StopReason, or for segmentStoppedConsuming the text of the error. row_count: rows indexed.
    location: URI that segmentUpload answered, or where else the server stored the archive.
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
        """Read the parameters of a query. Raises MalformedMessageError for one that is missing or no number."""
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
    """The controller's answer.

    offset: what CATCH_UP wants the server to reach, and the committed offset with COMMIT, KEEP and DISCARD; None when it
    means nothing. build_time_s: with COMMIT, how long the server has before it must extend its lease; else -1.
    split_commit: whether to commit in the three calls (start, upload, end) or in the single call `segmentCommit`.
    controller_url: with COMMIT, where to upload. segment_location: with UPLOAD_SUCCESS, what to pass as `location`.
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
        """Read an answer. Raises MalformedMessageError."""
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
            raise MalformedMessageError(f"not an answer of the completion protocol: {body[:200]!r} ({error})") from error


assert {field.name for field in fields(CompletionRequest)} == {*_TEXTS, *_NUMBERS}
