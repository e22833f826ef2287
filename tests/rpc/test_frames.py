"""The format of frames: for any division into reads, and any input."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from gamay.rpc.errors import ProtocolError
from gamay.rpc.frames import (
    ALIGNMENT,
    Buffer,
    Frame,
    FrameKind,
    FrameReader,
    Header,
    Hello,
    Unfinished,
    pack,
    pack_hello,
    unpack_hello,
)

LIMIT = 1 << 20

buffers_of = st.lists(st.binary(max_size=200) | st.integers(0, 90_000).map(bytes), max_size=4)
frames_of = st.builds(
    lambda kind, id_, number, text, buffers: (Header(kind, id_, tuple(map(len, buffers)), number, text), buffers),
    st.sampled_from(list(FrameKind)).map(int),
    st.integers(0, 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=40),
    buffers_of,
)


def feed(reader: FrameReader, data: bytes, cuts: Any = None) -> list[Frame]:
    """Pass bytes to a reader, in pieces limited by `cuts` and by the available space."""
    frames, position = [], 0
    while position < len(data):
        space = reader.space()
        count = min(len(space), len(data) - position, cuts() if cuts else len(data))
        assert count > 0
        space[:count] = data[position : position + count]
        position += count
        frames += list(reader.filled(count))
    return frames


def joined(pieces: "list[Buffer]") -> bytes:
    return b"".join(pieces)


@given(st.lists(frames_of, max_size=6), st.randoms(use_true_random=False), st.sampled_from([1, 7, 100, 70_000]))
@settings(max_examples=60, deadline=None)
def test_what_is_sent_arrives_wherever_it_is_cut(frames: Any, random: Any, longest: int) -> None:
    stream = b"".join(joined(pack(header, buffers)) for header, buffers in frames)
    if longest == 1:
        stream, frames = stream[:0], []
        for header, buffers in [(Header(FrameKind.CALL, 1, (3,)), [b"abc"])] * 3:
            stream += joined(pack(header, buffers))
            frames.append((header, buffers))
    received = feed(FrameReader(LIMIT), stream, lambda: random.randint(1, longest))
    assert [(frame.header, [bytes(b) for b in frame.buffers]) for frame in received] == frames


@given(st.lists(st.integers(0, 5000), max_size=5))
@settings(max_examples=50, deadline=None)
def test_buffers_are_aligned_writable_and_of_one_owner(sizes: list[int]) -> None:
    import numpy as np

    data = joined(pack(Header(FrameKind.REPLY, 1, tuple(sizes)), [bytes(size) for size in sizes]))
    first, second = feed(FrameReader(LIMIT), data * 2)
    for buffer in first.buffers:
        if len(buffer):
            array = np.frombuffer(buffer, np.uint8)
            assert array.ctypes.data % ALIGNMENT == 0
            assert array.flags.writeable
            array[:] = 7
    assert all(not any(buffer) for buffer in second.buffers)


@given(st.binary(min_size=1, max_size=400))
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_or_waited_for_but_never_taken(data: bytes) -> None:
    try:
        frames = feed(FrameReader(LIMIT), data)
    except ProtocolError:
        return
    for frame in frames:  # bytes that happen to be a frame
        assert len(frame.buffers) == len(frame.header.sizes)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_frame_is_refused_or_read_as_what_it_says(data: st.DataObject) -> None:
    sent = bytearray(joined(pack(Header(FrameKind.CALL, 5, (3, 20)), [b"abc", bytes(20)])))
    for _ in range(data.draw(st.integers(1, 3))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    try:
        frames = feed(FrameReader(LIMIT), bytes(sent))
    except ProtocolError:
        return
    assert len(frames) <= 1


def test_a_frame_that_is_too_large_is_refused_before_it_is_read() -> None:
    data = joined(pack(Header(FrameKind.CALL, 1, (5000,)), [bytes(5000)]))
    with pytest.raises(ProtocolError, match="more than the 1000 allowed"):
        feed(FrameReader(1000), data[:8])


def test_frames_that_are_not_complete_are_bounded_for_all_connections_together() -> None:
    whole = joined(pack(Header(FrameKind.CALL, 1, (300_000,)), [bytes(300_000)]))
    unfinished = Unfinished(1_000_000)
    readers = [FrameReader(1 << 30, unfinished) for _ in range(5)]
    for reader in readers[:3]:
        assert feed(reader, whole[:290_000]) == []
    with pytest.raises(ProtocolError, match="all connections together have sent"):
        feed(readers[3], whole[:290_000])
    readers[3].close()
    assert unfinished.held < 900_000
    for reader in readers[:3]:
        assert len(feed(reader, whole[290_000:])) == 1
    assert unfinished.held == 0
    feed(readers[4], whole[:290_000])
    readers[4].close()
    assert unfinished.held == 0


@pytest.mark.parametrize(
    "text", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", bytes(64)]
)
def test_other_protocols_are_told_apart(text: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"is it a query port|more than the"):
        feed(FrameReader(LIMIT), text)


def test_hello() -> None:
    hello = Hello(1, 3, "Server_a_1", 1000, 10)
    (frame,) = feed(FrameReader(LIMIT), joined(pack_hello(hello)))
    assert unpack_hello(frame) == hello
    (other,) = feed(FrameReader(LIMIT), joined(pack(Header(FrameKind.PING))))
    with pytest.raises(ProtocolError, match="does not begin with a hello"):
        unpack_hello(other)
    (bad,) = feed(FrameReader(LIMIT), joined(pack(Header(FrameKind.HELLO, 0, (1,)), [b"\xc1"])))
    with pytest.raises(ProtocolError, match="cannot be read"):
        unpack_hello(bad)
