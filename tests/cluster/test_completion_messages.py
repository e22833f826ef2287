import orjson
import pytest

from gamay.cluster.records.completion import (
    Call,
    CompletionRequest,
    CompletionResponse,
    MalformedMessageError,
    Status,
    StopReason,
)
from gamay.cluster.records.invariants import SEGMENT, InvariantError, check
from gamay.cluster.records.llc_name import LlcName, partition_of
from gamay.cluster.records.records import COMMITTING, DONE, IN_PROGRESS, SegmentRecord

REQUEST = CompletionRequest(
    "Server_a_8098", "t__0__3__20260101T0000Z", "1210", StopReason.ROW_LIMIT.value, 100, 5, 6, 7, 8, 9, "deepstore:t/x"
)


def test_requests_are_read_as_written() -> None:
    assert CompletionRequest.from_params(Call.COMMIT_END, REQUEST.to_params()) == REQUEST
    short = CompletionRequest("s", "n", "0")
    assert short.to_params() == {"instance": "s", "name": "n", "streamPartitionMsgOffset": "0"}
    assert CompletionRequest.from_params(Call.CONSUMED, short.to_params()) == short


def test_parameters_have_the_names_of_the_protocol() -> None:
    assert set(REQUEST.to_params()) == {
        "instance", "name", "streamPartitionMsgOffset", "reason", "rowCount", "memoryUsedBytes", "segmentSizeBytes",
        "buildTimeMillis", "waitTimeMillis", "extraTimeSec", "location",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        (Call.CONSUMED, "streamPartitionMsgOffset"),
        (Call.CONSUMED, "instance"),
        (Call.COMMIT_END_WITH_METADATA, "location"),
        (Call.BUILD_FAILURE, "rowCount"),
    ],
)
def test_a_missing_parameter_is_named(call: Call, missing: str) -> None:
    params = {k: v for k, v in REQUEST.to_params().items() if k != missing}
    with pytest.raises(MalformedMessageError, match=f"{call.value}: parameter {missing} is missing"):
        CompletionRequest.from_params(call, params)


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(MalformedMessageError, match="rowCount must be a number, not 'x'"):
        CompletionRequest.from_params(Call.CONSUMED, REQUEST.to_params() | {"rowCount": "x"})


def test_responses_are_the_documents_that_servers_know() -> None:
    commit = CompletionResponse(Status.COMMIT, "1210", 126, controller_url="http://ctl:9000")
    assert commit.to_json() == {
        "status": "COMMIT", "streamPartitionMsgOffset": "1210", "buildTimeSec": 126, "isSplitCommitType": True,
        "controllerVipUrl": "http://ctl:9000",
    }  # fmt: skip
    for response in (
        commit,
        CompletionResponse(Status.HOLD),
        CompletionResponse(Status.UPLOAD_SUCCESS, segment_location="x"),
    ):
        assert CompletionResponse.from_bytes(orjson.dumps(response.to_json())) == response


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"status": "MAYBE"}', b"<html>", b'{"status":"HOLD","buildTimeSec":"x"}']
)
def test_what_is_no_response_is_told(body: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        CompletionResponse.from_bytes(body)


def test_names_are_read_as_written_and_follow_each_other() -> None:
    name = LlcName.new("my_Table", 17, 427, 1_551_109_020_000)
    assert str(name) == "my_Table__17__427__20190225T1537Z"
    assert LlcName.parse(str(name)) == name
    assert str(name.next(1_551_109_020_000 + 21_000_000)) == "my_Table__17__428__20190225T2127Z"
    assert (LlcName("t", 20_003, 0, "x").topic_index, LlcName("t", 20_003, 0, "x").stream_partition) == (2, 3)
    assert LlcName("t", 1, 9, "20190225T1537Z") < LlcName("t", 1, 10, "20190225T1537Z")


@pytest.mark.parametrize(
    "name",
    [
        "t",
        "t__0__1",
        "t__x__1__20190225T1537Z",
        "t__0__-1__20190225T1537Z",
        "t__0__1__today",
        "__0__1__20190225T1537Z",
        "t__0__١__20190225T1537Z",
        "a__t__0__20190225T1537Z__b",
    ],
)
def test_other_names_are_not_taken_for_them(name: str) -> None:
    assert LlcName.parse(name) is None
    with pytest.raises(ValueError, match="table__partition__sequence__time"):
        LlcName.must_parse(name)


def test_the_partition_is_known_from_both_kinds_of_realtime_names() -> None:
    assert partition_of("t__7__1__20190225T1537Z") == 7
    assert partition_of("uploaded__t__8__20190225T1537Z__0") == 8
    assert partition_of("t_2024-01-01_0") is None


def test_a_consuming_segments_record_survives_the_round_trip() -> None:
    record = SegmentRecord(
        "t__0__0__20190225T1537Z", status=IN_PROGRESS, start_offset="0", num_replicas=2, flush_threshold_rows=5000,
        lost_offsets="3,9",
    )  # fmt: skip
    simple = record.to_record().simple
    assert simple["segment.realtime.status"] == "IN_PROGRESS"
    assert simple["segment.realtime.startOffset"] == "0"
    assert "segment.realtime.endOffset" not in simple
    assert simple["segment.realtime.numReplicas"] == "2"
    assert simple["segment.flush.threshold.size"] == "5000"
    assert SegmentRecord.from_record(record.to_record()) == record
    assert not record.complete
    assert record.with_changes(status=DONE).complete


@pytest.mark.parametrize(
    "bad",
    [
        SegmentRecord("t__0__0__20190225T1537Z", status=IN_PROGRESS),
        SegmentRecord("other", status=IN_PROGRESS, start_offset="0"),
        SegmentRecord("t__0__0__20190225T1537Z", status=COMMITTING, start_offset="0"),
        SegmentRecord("t__0__0__20190225T1537Z", status=DONE, start_offset="0", end_offset="5"),
    ],
)
def test_a_consuming_segment_without_its_place_is_never_written(bad: SegmentRecord) -> None:
    with pytest.raises(InvariantError):
        check(bad, SEGMENT)
