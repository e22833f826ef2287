"""`gamay topic` and `gamay produce`."""

import subprocess
import sys

import pytest

from gamay import cli
from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.stream.log.plugin import LogMetadata
from gamay.ingest.stream.log.reader import PartitionReader
from gamay.ingest.stream.log.topic import open_topic
from gamay.ingest.stream.offsets import IntegerOffset


@pytest.fixture
def gamay(tmp_path, monkeypatch, capsys):
    """Run `gamay` on a data folder with text on standard input; return status, output and errors."""

    def run(*arguments, text=""):
        monkeypatch.setattr(sys, "argv", ["gamay", *map(str, arguments), "--data-dir", str(tmp_path)])
        (tmp_path / "input").write_text(text, newline="")
        with (tmp_path / "input").open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            with pytest.raises(SystemExit) as ended:
                cli.main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


def content(folder):
    topic = open_topic(folder / "streams", "events")
    found = []
    for partition in LogMetadata(topic, SYSTEM_CLOCK).partition_ids():
        batch = PartitionReader(topic, partition, SYSTEM_CLOCK).fetch(IntegerOffset(0), 1_000_000, 1 << 30, 0)
        found.append(batch.payloads.to_pylist())
    return found


def test_lines_go_to_the_partitions_in_turn(gamay, tmp_path):
    assert gamay("topic", "create", "events", "--partitions", 2) == (0, "created the topic 'events' with 2 partitions\n", "")
    status, output, _ = gamay("produce", "events", text='{"a":1}\n\n{"a":2}\r\n{"a":3}')
    assert (status, output) == (0, "appended 3 messages to 'events': partition 0 ends at 2, partition 1 ends at 1\n")
    assert gamay("produce", "events", "--partition", 1, text='{"a":4}\n')[0] == 0
    assert content(tmp_path) == [[b'{"a":1}', b'{"a":3}'], [b'{"a":2}', b'{"a":4}']]
    assert gamay("topic", "list")[1] == "events\t2\t0-2 0-2\n"
    assert gamay("produce", "events", text="")[1] == "appended 0 messages to 'events'\n"


def test_another_process_appends_what_comes_through_a_pipe(gamay, tmp_path):
    gamay("topic", "create", "events")
    command = [sys.executable, "-m", "gamay.cli", "produce", "events", "--data-dir", str(tmp_path)]
    ended = subprocess.run(command, input="a\nb\n" * 300_000, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert content(tmp_path) == [[b"a", b"b"] * 300_000]


def test_lines_of_one_key_go_to_one_partition(gamay, tmp_path):
    gamay("topic", "create", "events", "--partitions", 3)
    lines = "".join(f'{{"k": "key {i % 7}", "i": {i}}}\n' for i in range(1000))
    assert gamay("produce", "events", "--key", "k", text=lines)[0] == 0
    found = content(tmp_path)
    assert sum(map(len, found)) == 1000
    keys = [{line.split(b'"')[3] for line in partition} for partition in found]
    assert sum(map(len, keys)) == 7
    assert [sorted(p, key=lambda line: int(line.split(b" ")[-1][:-1])) for p in found] == found


def test_mistakes_are_told_in_a_sentence(gamay):
    assert gamay("topic", "create", "events")[0] == 0
    for arguments, text, words in (
        (["topic", "create", "events"], "", "exists already"),
        (["topic", "alter", "events", "--partitions", 0], "", "1 to 10000 partitions"),
        (["topic", "alter", "events", "--retention", "soon"], "", "'soon' is not a period"),
        (["produce", "evnts"], "{}", "Did you mean 'events'?"),
        (["produce", "events", "--partition", 3], "{}", "the partitions 0 to 0, not 3"),
        (["produce", "events", "--partition", 0, "--key", "k"], "{}", "exclude each other"),
        (["produce", "events", "--key", "k"], '{"k": 1}\n{"l": 1}\n', "line 2 has no column 'k'"),
    ):
        status, _, errors = gamay(*arguments, text=text)
        assert status == 1
        assert errors.startswith("gamay: ")
        assert words in errors
