"""The decisions of a segment's consumer: every row of the protocol's table, and random conversations."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from gamay.cluster.records.completion import MAX_HOLD_MS, Status, StopReason
from gamay.server.consuming import machine as m
from gamay.server.consuming.machine import ConsumerMachine, ConsumerState, FlushLimits

CREATED_MS = 1_000_000
HOUR_MS = 3_600_000


def started(now_ms: int = CREATED_MS, rows: int = 100, flush_ms: int = HOUR_MS, **options: bool) -> ConsumerMachine:
    return ConsumerMachine(0, FlushLimits(rows, CREATED_MS, flush_ms), now_ms, **options)


def holding(**options: bool) -> ConsumerMachine:
    """A consumer that has reached its row limit and asks."""
    consumer = started(**options)
    consumer.consumed(100, 100, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.ReportConsumed(StopReason.ROW_LIMIT)
    return consumer


def committing(**options: bool) -> ConsumerMachine:
    consumer = holding(**options)
    consumer.answered(Status.COMMIT, 100, 126, CREATED_MS)
    return consumer


def test_it_consumes_as_many_messages_as_there_is_room_for() -> None:
    consumer = started()
    assert consumer.next(CREATED_MS) == m.Consume(100, None, CREATED_MS + HOUR_MS)
    consumer.consumed(30, 20, CREATED_MS)  # some were filtered
    assert consumer.next(CREATED_MS) == m.Consume(80, None, CREATED_MS + HOUR_MS)


def test_time_ends_a_segment_only_when_something_came() -> None:
    consumer = started()
    consumer.next(CREATED_MS + HOUR_MS)
    assert consumer.state is ConsumerState.INITIAL_CONSUMING
    consumer.consumed(1, 1, CREATED_MS + HOUR_MS)
    assert consumer.next(CREATED_MS + 2 * HOUR_MS) == m.ReportConsumed(StopReason.TIME_LIMIT)


def test_a_restart_gives_ten_minutes_at_least() -> None:
    late_ms = CREATED_MS + 5 * HOUR_MS
    assert started(late_ms).next(late_ms) == m.Consume(100, None, late_ms + m.MIN_CONSUMPTION_MS)
    assert started(late_ms, flush_ms=60_000).next(late_ms) == m.Consume(100, None, late_ms + 60_000)


def test_other_ends() -> None:
    forced = started()
    forced.force_commit()
    assert forced.next(CREATED_MS) == m.ReportConsumed(StopReason.FORCE_COMMIT)
    ended = started()
    ended.consumed(5, 5, CREATED_MS, partition_ended=True)
    assert ended.next(CREATED_MS) == m.ReportConsumed(StopReason.END_OF_PARTITION_GROUP)
    full = started()
    full.consumed(5, 5, CREATED_MS, full=True)
    assert full.next(CREATED_MS) == m.ReportConsumed(StopReason.INDEX_CAPACITY)


@pytest.mark.parametrize("status", [Status.HOLD, Status.NOT_LEADER, Status.FAILED, Status.NOT_SENT, Status.PROCESSED])
def test_it_asks_again_after_three_seconds(status: Status) -> None:
    consumer = holding()
    consumer.answered(status, None, -1, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Wait(CREATED_MS + MAX_HOLD_MS)
    assert consumer.next(CREATED_MS + MAX_HOLD_MS) == m.ReportConsumed(StopReason.ROW_LIMIT)


def test_it_catches_up_to_exactly_the_offset() -> None:
    consumer = holding()
    consumer.answered(Status.CATCH_UP, 120, -1, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Consume(None, 120, None)
    with pytest.raises(ValueError, match="when 120 was the end"):
        consumer.consumed(121, 21, CREATED_MS)
    consumer.consumed(120, 20, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.ReportConsumed(StopReason.ROW_LIMIT)


def test_catching_up_to_where_it_is_means_waiting() -> None:
    consumer = holding()
    consumer.answered(Status.CATCH_UP, 100, -1, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Wait(CREATED_MS + MAX_HOLD_MS)


def test_a_commit() -> None:
    consumer = committing()
    assert consumer.next(CREATED_MS) == m.Build(126)
    consumer.built()
    assert consumer.next(CREATED_MS) == m.StartCommit()
    consumer.commit_started(Status.COMMIT_CONTINUE, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Upload()
    consumer.uploaded("file:///x", CREATED_MS)
    assert consumer.next(CREATED_MS) == m.EndCommit("file:///x")
    consumer.commit_ended(Status.COMMIT_SUCCESS, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Serve()
    assert consumer.next(CREATED_MS) == m.Wait(None)
    consumer.go_online(100, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Leave(download=False)


def test_a_commit_in_one_step() -> None:
    consumer = holding()
    consumer.answered(Status.COMMIT, 100, 126, CREATED_MS, split_commit=False)
    assert consumer.next(CREATED_MS) == m.Build(126)
    consumer.built()
    assert consumer.next(CREATED_MS) == m.CommitWhole()
    consumer.commit_ended(Status.COMMIT_SUCCESS, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Serve()


def test_without_pauses_the_commit_starts_before_the_build() -> None:
    consumer = committing(pauseless=True)
    assert consumer.next(CREATED_MS) == m.StartCommit()
    consumer.commit_started(Status.COMMIT_CONTINUE, CREATED_MS)
    consumer.decide_end(100, CREATED_MS)  # the cluster goes on while this replica builds
    assert consumer.next(CREATED_MS) == m.Build(126)
    consumer.built()
    assert consumer.next(CREATED_MS) == m.Upload()
    consumer.uploaded(None, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Wait(CREATED_MS + MAX_HOLD_MS)  # no other replica needs to have the built segment
    assert consumer.has_all_rows  # so the next segment need not wait
    consumer.go_online(100, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Serve()
    assert consumer.next(CREATED_MS) == m.Leave(download=False)


def test_an_end_that_others_decided() -> None:
    behind = started(pauseless=True)
    behind.consumed(40, 40, CREATED_MS)
    behind.decide_end(60, CREATED_MS)
    assert behind.next(CREATED_MS) == m.Consume(None, 60, None)
    assert not behind.has_all_rows
    behind.consumed(60, 20, CREATED_MS)
    assert behind.has_all_rows
    assert behind.next(CREATED_MS) == m.ReportConsumed(None)
    ahead = started(pauseless=True)
    ahead.consumed(70, 70, CREATED_MS)
    ahead.decide_end(60, CREATED_MS)
    assert ahead.is_beyond
    assert not ahead.has_all_rows
    assert ahead.next(CREATED_MS) == m.BeginAnew()
    assert ahead.next(CREATED_MS) == m.Wait(None)
    ahead.go_online(60, CREATED_MS)
    assert ahead.next(CREATED_MS) == m.Leave(download=True)


def test_what_was_built_is_used_when_it_is_elected_again() -> None:
    consumer = committing()
    consumer.built()
    consumer.next(CREATED_MS)
    consumer.commit_started(Status.FAILED, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Wait(CREATED_MS + MAX_HOLD_MS)
    consumer.next(CREATED_MS + MAX_HOLD_MS)
    consumer.answered(Status.COMMIT, 100, 126, CREATED_MS + MAX_HOLD_MS)
    assert consumer.next(CREATED_MS + MAX_HOLD_MS) == m.StartCommit()


def test_a_segment_built_before_catching_up_is_built_anew() -> None:
    consumer = committing()
    consumer.built()
    consumer.next(CREATED_MS)
    consumer.commit_started(Status.HOLD, CREATED_MS)
    later_ms = CREATED_MS + MAX_HOLD_MS
    consumer.next(later_ms)
    consumer.answered(Status.CATCH_UP, 110, -1, later_ms)
    consumer.next(later_ms)
    consumer.consumed(110, 10, later_ms)
    consumer.next(later_ms)
    consumer.answered(Status.COMMIT, 110, 126, later_ms)
    assert consumer.next(later_ms) == m.Build(126)


def test_keep_and_discard() -> None:
    keeping = holding()
    keeping.answered(Status.KEEP, 100, -1, CREATED_MS)
    assert keeping.next(CREATED_MS) == m.Build(None)
    keeping.built()
    assert keeping.next(CREATED_MS) == m.Serve()
    assert keeping.state is ConsumerState.RETAINED
    for consumer, status in ((holding(), Status.DISCARD), (holding(downloads_completed=True), Status.KEEP)):
        consumer.answered(status, 100, -1, CREATED_MS)
        assert consumer.next(CREATED_MS) == m.Wait(None)  # its rows are still served
        consumer.go_online(100, CREATED_MS)
        assert consumer.next(CREATED_MS) == m.Leave(download=True)


@pytest.mark.parametrize(
    ("end", "action"),
    [
        (90, m.Leave(download=True)),
        (100, m.Build(None)),
        (110, m.Consume(None, 110, CREATED_MS + m.CATCH_UP_TO_ONLINE_MS)),
    ],
)
def test_going_online_while_holding(end: int, action: m.Action) -> None:
    consumer = holding()
    consumer.go_online(end, CREATED_MS)
    assert consumer.next(CREATED_MS) == action


def test_catching_up_to_online_has_its_time() -> None:
    consumer = holding()
    consumer.go_online(110, CREATED_MS)
    consumer.consumed(109, 9, CREATED_MS)
    assert consumer.next(CREATED_MS + m.CATCH_UP_TO_ONLINE_MS) == m.Leave(download=True)


def test_temporary_errors_are_tried_again_five_times() -> None:
    consumer, now_ms = started(), CREATED_MS
    for _ in range(m.RETRIES_MAX):
        consumer.fetch_failed("gone", now_ms, permanent=False)
        assert consumer.next(now_ms) == m.Wait(now_ms + m.RETRY_MS)
        now_ms += m.RETRY_MS
        assert isinstance(consumer.next(now_ms), m.Consume)
    consumer.fetch_failed("gone", now_ms, permanent=False)
    assert consumer.next(now_ms) == m.ReportStopped("gone")


def test_a_stop_is_reported_until_the_controller_knows() -> None:
    consumer = started()
    consumer.fetch_failed("broken", CREATED_MS, permanent=True)
    assert consumer.next(CREATED_MS) == m.ReportStopped("broken")
    consumer.stop_reported(False, CREATED_MS)
    assert consumer.next(CREATED_MS) == m.Wait(CREATED_MS + m.STOPPED_AGAIN_MS)
    later_ms = CREATED_MS + m.STOPPED_AGAIN_MS
    assert consumer.next(later_ms) == m.ReportStopped("broken")
    consumer.stop_reported(True, later_ms)
    assert consumer.next(later_ms) == m.Wait(None)


STATUSES = tuple(Status)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans())
def test_random_conversations(data: st.DataObject, pauseless: bool) -> None:
    consumer, now_ms, committed_at = started(pauseless=pauseless), CREATED_MS, -1
    built_at: object = None
    for _ in range(data.draw(st.integers(1, 60))):
        action = consumer.next(now_ms)
        status = data.draw(st.sampled_from(STATUSES))
        if isinstance(action, m.Consume):
            assert action.until is None or consumer.offset < action.until
            end = action.until if action.until is not None else consumer.offset + data.draw(st.integers(0, 40))
            step = data.draw(st.integers(consumer.offset, end))
            consumer.consumed(step, step - consumer.offset, now_ms)
        elif isinstance(action, m.ReportConsumed):
            consumer.answered(status, consumer.offset + data.draw(st.integers(0, 3)), 126, now_ms)
        elif isinstance(action, m.Build):
            if data.draw(st.booleans()):
                built_at = consumer.offset
                consumer.built()
            else:
                consumer.failed("full disk", now_ms)
        elif isinstance(action, m.StartCommit):
            assert pauseless or built_at == consumer.offset
            consumer.commit_started(status, now_ms)
        elif isinstance(action, m.Upload):
            assert built_at == consumer.offset
            consumer.uploaded(data.draw(st.sampled_from(["file:///x", None])), now_ms)
        elif isinstance(action, m.EndCommit):
            assert built_at == consumer.offset
            committed_at = consumer.offset
            consumer.commit_ended(data.draw(st.sampled_from([Status.COMMIT_SUCCESS, Status.FAILED])), now_ms)
        elif isinstance(action, m.ReportStopped):
            consumer.stop_reported(data.draw(st.booleans()), now_ms)
        elif isinstance(action, m.Serve):
            assert built_at == consumer.offset
        elif isinstance(action, m.Wait) and action.until_ms is not None:
            assert action.until_ms > now_ms
            now_ms = action.until_ms
    # from any state, the transition to ONLINE ends consumption
    end = committed_at if committed_at >= 0 else consumer.offset + data.draw(st.integers(-5, 5))
    consumer.go_online(end, now_ms)
    for _ in range(10):
        action = consumer.next(now_ms)
        if isinstance(action, m.Leave):
            assert action.download or (built_at == consumer.offset and consumer.offset == end)
            return
        if isinstance(action, m.Consume):
            consumer.consumed(action.until or consumer.offset, 1, now_ms)
        elif isinstance(action, m.Build):
            built_at = consumer.offset
            consumer.built()
        elif isinstance(action, m.StartCommit):
            consumer.commit_started(Status.FAILED, now_ms)
        elif isinstance(action, m.Upload):
            consumer.uploaded(None, now_ms)
        elif isinstance(action, m.EndCommit):
            consumer.commit_ended(Status.FAILED, now_ms)
    pytest.fail(f"still {action} in {consumer.state}")
