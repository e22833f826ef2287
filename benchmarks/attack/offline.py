"""Attacks that need no cluster: on reading segments, unpacking archives, loading records at a start, and computing the
constants of a query while it is compiled."""

import contextlib
import faulthandler
import logging
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa

import gamay
from benchmarks.attack.constants import COMPILED_S, FUNCTIONS, long_call
from benchmarks.attack.findings import Findings
from benchmarks.attack.indexes import DECLARED, IndexedSegment
from benchmarks.attack.over_http import damaged_archive
from benchmarks.attack.records import records_of, write_mutants
from benchmarks.attack.segments import content_of, read_all, write_mutant
from benchmarks.attack.target import odd_segment, trips_archive
from gamay.base.errors import CorruptSegmentError, GamayError, QueryError
from gamay.sql.parser import parse_query
from gamay.storage.archive import unpack

Try = Callable[[int, random.Random, Findings], None]

_STUCK_S = 60.0
TABLES_DAMAGED = 20
"""Tables of which one record each is damaged before a start; as many inputs."""


@contextlib.contextmanager
def _segments() -> Iterator[Try]:
    with tempfile.TemporaryDirectory(prefix="gamay-attack-") as scratch:
        folders = [odd_segment(Path(scratch) / name, name) for name in ("t_idx", "t_raw")]
        contents = [content_of(folder) for folder in folders]

        def attack(number: int, rng: random.Random, findings: Findings) -> None:
            which = rng.randrange(len(folders))
            what = write_mutant(folders[which], contents[which], rng)
            try:
                read_all(folders[which])
            except (CorruptSegmentError, UnicodeDecodeError):
                findings.refused()
            except Exception as error:  # noqa: BLE001 - whatever else comes out is the finding
                findings.wrongly(number, what, repr(error))
            else:
                findings.answered()

        yield attack


@contextlib.contextmanager
def _archives() -> Iterator[Try]:
    with tempfile.TemporaryDirectory(prefix="gamay-attack-") as scratch:
        folder = Path(scratch)
        sound = trips_archive(folder, rows=50).read_bytes()
        damaged, unpacked = folder / "damaged.tar.gz", folder / "unpacked"
        before = set(folder.iterdir())

        def attack(number: int, rng: random.Random, findings: Findings) -> None:
            damaged.write_bytes(damaged_archive(sound, rng))
            try:
                unpack(damaged, unpacked, bytes_max=1 << 22)
            except CorruptSegmentError:
                findings.refused()
            except Exception as error:  # noqa: BLE001 - whatever else comes out is the finding
                findings.wrongly(number, f"seed of {number}", repr(error))
            else:
                shutil.rmtree(unpacked)
                findings.answered()
            if strange := set(folder.iterdir()) - before - {damaged}:
                raise AssertionError(f"archive {number} left behind {sorted(strange)}")

        yield attack


@contextlib.contextmanager
def _records() -> Iterator[Try]:
    rows = pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"]})
    with tempfile.TemporaryDirectory(prefix="gamay-attack-") as scratch:
        sound, damaged = Path(scratch) / "sound", Path(scratch) / "damaged"
        names = [f"damaged{i}" for i in range(TABLES_DAMAGED)]
        with gamay.connect(sound) as db:
            for name in ("bystander", *names):
                db.create_table(name, rows)
        records = records_of(sound / "metadata.db", names)

        def attack(number: int, rng: random.Random, findings: Findings) -> None:
            if number % TABLES_DAMAGED:
                findings.answered()  # one of those of the start before
                return
            shutil.copytree(sound, damaged)
            what = write_mutants(damaged / "metadata.db", records, rng)
            try:
                with gamay.connect(damaged) as db:
                    counted = db.sql("SELECT COUNT(*), SUM(id) FROM bystander").rows()
                    for name in names:
                        with contextlib.suppress(GamayError):
                            db.sql(f"SELECT COUNT(*), SUM(id) FROM {name} WHERE city <> 'x'")
                if counted == [(3, 6.0)]:
                    findings.answered()
                else:
                    findings.wrongly(number, what, f"the bystander's table has {counted}")
            except Exception as error:  # noqa: BLE001 - whatever comes out is the finding
                findings.wrongly(number, what, repr(error))
            shutil.rmtree(damaged)

        yield attack


@contextlib.contextmanager
def _indexes() -> Iterator[Try]:
    with tempfile.TemporaryDirectory(prefix="gamay-attack-") as scratch:
        segment = IndexedSegment(Path(scratch))

        def attack(number: int, rng: random.Random, findings: Findings) -> None:
            what = segment.damage(rng)
            try:
                found = segment.ask()
            except Exception as error:  # noqa: BLE001 - whatever comes out is the finding
                findings.wrongly(number, what, repr(error))
                return
            if found != segment.answers:
                findings.wrongly(number, what, f"{found}, and {segment.answers} before")
            elif segment.num_used < len(DECLARED):
                findings.refused()
            else:
                findings.answered()

        yield attack
        segment.close()


@contextlib.contextmanager
def _constants() -> Iterator[Try]:
    def attack(number: int, rng: random.Random, findings: Findings) -> None:
        call = long_call(rng.choice(FUNCTIONS), rng)
        faulthandler.dump_traceback_later(_STUCK_S, exit=True)
        begun_s = time.process_time()
        try:
            parse_query(f"SELECT {call} FROM t")
        except QueryError:
            findings.refused()
        except Exception as error:  # noqa: BLE001 - whatever else comes out is the finding
            findings.wrongly(number, call, repr(error))
        else:
            findings.answered()
        faulthandler.cancel_dump_traceback_later()
        if (took_s := time.process_time() - begun_s) > COMPILED_S:
            findings.wrongly(number, call, f"compiling took {took_s:.1f} s")

    yield attack


OFFLINE: dict[str, Callable[[], AbstractContextManager[Try]]] = {
    "segments": _segments,
    "indexes": _indexes,
    "archives": _archives,
    "records": _records,
    "constants": _constants,
}


def run(kind: str, seed: int, numbers: Iterable[int], at: Path) -> Findings:
    """Try the inputs with these numbers; return the findings. at: where the current number is stored, in case of a crash."""
    findings = Findings(kind)
    logging.disable()  # what is damaged is told at length
    with OFFLINE[kind]() as attack, at.open("wb", buffering=0) as noted:
        for number in numbers:
            os.pwrite(noted.fileno(), b"%d\n" % number, 0)
            attack(number, random.Random(f"{seed} {kind} {number}"), findings)
    return findings
