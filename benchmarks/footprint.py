"""Building, size, memory and start-up, each compared with another system in the same run.

    python -m benchmarks.footprint [--write-docs]

Prints: rows a second a core when segments are built from the flights; the archive's size over the same rows in Parquet
with Zstandard; the resident memory of a cluster, and of a process with `gamay.connect`, that has answered every query of
`benchmarks.compare`, over the bytes it maps; seconds from the start of a process to the first row, with compiled kernels
and without; by the clock, and of the processors, which other programs do not lengthen.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import httpx
import pyarrow.parquet as pq

from benchmarks import data, report
from benchmarks.compare import parameters, read_queries

FIRST_ROW = {
    "gamay": "import gamay; db = gamay.connect({folder!r}); print(db.sql({sql!r}).rows(), flush=True)",
    "duckdb": "import duckdb; db = duckdb.connect({folder!r}); print(db.execute({sql!r}).fetchall(), flush=True)",
    "chdb": "import chdb; print(chdb.query({sql!r}, 'CSV').bytes().decode().split()[0], flush=True)",
}
SQL = "SELECT carrier, COUNT(*), SUM(distance) FROM flights WHERE origin = 'JFK' GROUP BY carrier ORDER BY carrier LIMIT 20"

_BUILT = "segments from the flights' Arrow data, no indexes"
_PACKED = "archive over the same rows in Parquet with Zstandard"
_CLUSTER = "resident memory of a cluster over mapped bytes, right after the whole benchmark"
_CONNECTED = "a process with `gamay.connect`, right after the same queries"
_LATER = {_CLUSTER: "the same some seconds later", _CONNECTED: "that process some seconds later"}
_KNOWN = "process start to first row, kernels compiled before"
_NEW = "process start to first row, nothing compiled"
SHAPES = {
    "footprint": report.Shape(
        ("measure", "value"),
        (_BUILT, _PACKED, _CLUSTER, _LATER[_CLUSTER], _CONNECTED, _LATER[_CONNECTED], _KNOWN, _NEW),
        ("of the processors, or mapped",),
    )
}

_USED = "; import sys; sys.stdout.flush(); u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
_PORTS = (29000, 28099, 28098)  # of the cluster whose memory is measured
_START_S = 120
_STARTS = 10
_TRIMMED_S = 11  # in that time every process gives back what it does not need


def build_rate() -> tuple[float, float]:
    """Return (rows a second on one core, archive bytes over Parquet bytes) for the flights."""
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.ingest.infer import infer_schema
    from gamay.ingest.transform.pipeline import Pipeline
    from gamay.model.table.table_config import TableConfig
    from gamay.segment.write.builder import SegmentBuilder
    from gamay.storage.archive import pack

    table = pq.read_table(data.flights()[0])
    schema = infer_schema("flights", table.schema)
    config = TableConfig.offline("flights")
    rates = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(4):
            start = time.process_time()
            builder = SegmentBuilder(schema, config, f"flights_{number}", Path(folder), clock=SYSTEM_CLOCK)
            pipeline = Pipeline(schema, config)
            for batch in table.to_batches(max_chunksize=65_536):
                builder.append(pipeline.apply(batch))
            path = builder.build()
            rates.append(table.num_rows / (time.process_time() - start))
        archive = Path(folder) / "flights.tar.zst"
        pack(path, archive)
        parquet = Path(folder) / "flights.parquet"
        pq.write_table(table, parquet, compression="zstd")
        return max(rates), archive.stat().st_size / parquet.stat().st_size


def serving_memory() -> tuple[int, int, int]:
    """Return bytes of a cluster: resident right after the whole benchmark and when it has been trimmed, and mapped."""
    controller, broker, server = (str(port) for port in _PORTS)
    ports = ["--controller-port", controller, "--broker-port", broker, "--server-port", server]
    command = [sys.executable, "-m", "gamay.cli", "start", "all", "--data-dir", str(data.FOLDER / "gamay"), *ports]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with httpx.Client(timeout=60) as http:
            _wait_until_ready(http, f"http://localhost:{controller}/health")
            for name in ("events", "flights"):
                for query in read_queries(name):
                    for filling in parameters(3):
                        body = {"sql": query.text("gamay").format(**filling)}
                        answer = http.post(f"http://localhost:{broker}/query/sql", json=body).json()
                        assert not answer["exceptions"], answer["exceptions"]
            served = _resident(process.pid)
            time.sleep(_TRIMMED_S)
            return served, _resident(process.pid), _mapped(process.pid)
    finally:
        process.terminate()
        process.wait()


def process_memory() -> tuple[int, int, int]:
    """Return the same of a process that ran queries through `gamay.connect`: this one, which must have run none before."""
    import gamay

    with gamay.connect(data.FOLDER / "gamay") as db:
        for name in ("events", "flights"):
            for query in read_queries(name):
                for filling in parameters(3):
                    db.sql(query.text("gamay").format(**filling)).rows()
        served = _resident(os.getpid())
        time.sleep(_TRIMMED_S)
        return served, _resident(os.getpid()), _mapped(os.getpid())


def _mapped(pid: int) -> int:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    segments = {line.split(maxsplit=5)[5] for line in lines if line.endswith("columns.bin")}
    return sum(os.path.getsize(path) for path in segments)


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _wait_until_ready(http: httpx.Client, url: str) -> None:
    give_up = time.monotonic() + _START_S
    while time.monotonic() < give_up:
        try:
            if http.get(url).status_code == 200:
                return
        except httpx.TransportError:
            pass  # the ports are not open yet
        time.sleep(0.1)
    raise SystemExit(f"the cluster is not ready after {_START_S} s")


def first_row(system: str, folder: str, sql: str, environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds from the start of a Python process to the first row: elapsed, and of processor time."""
    code = "import resource\n" + FIRST_ROW[system].format(folder=folder, sql=sql) + _USED
    # The new process reads modules compiled to bytecode, as everything installed by pip is.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env={**inherited, **environment}) as process:
        assert process.stdout is not None
        row = process.stdout.readline()
        clock_s = time.perf_counter() - start
        used = process.stdout.read().split()
    assert row, f"{system} gave no row"
    assert process.returncode == 0, f"{system} ended with {process.returncode}"
    return clock_s, float(used[-1])


def _least(system: str, folder: str, sql: str) -> tuple[float, float]:
    starts = [first_row(system, folder, sql, {}) for _ in range(_STARTS)]
    return min(clock_s for clock_s, _ in starts), min(used_s for _, used_s in starts)


def main() -> None:
    arguments = report.arguments_of(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    found = report.Report("footprint", SHAPES["footprint"])
    rate, size = build_rate()
    found.add(_BUILT, f"{rate / 1e6:.1f} million rows/s a core", "")
    found.add(_PACKED, f"{size:.2f}", "")
    # The process in its own interpreter: what this one has loaded would count.
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        in_process = processes.submit(process_memory).result()
    served, settled, mapped = serving_memory()
    for case, resident in ((_CLUSTER, served), (_LATER[_CLUSTER], settled)):
        found.add(case, f"{_mebibytes(resident)} / {_mebibytes(mapped)} = {resident / mapped:.2f}", "")
    served, settled, mapped = in_process
    for case, resident in ((_CONNECTED, served), (_LATER[_CONNECTED], settled)):
        found.add(case, _mebibytes(resident), _mebibytes(mapped))
    folders = {"gamay": str(data.FOLDER / "gamay"), "duckdb": str(data.FOLDER / "duckdb.db"), "chdb": ""}
    file_sql = SQL.replace("FROM flights", f"FROM file('{data.flights()[0]}', Parquet)")
    starts = {system: _least(system, folder, file_sql if system == "chdb" else SQL) for system, folder in folders.items()}
    clock, used = ([f"{starts[system][number]:.2f} s" for system in folders] for number in range(2))
    found.add(_KNOWN, *("{} (DuckDB {}, chDB {})".format(*values) for values in (clock, used)))
    with tempfile.TemporaryDirectory() as cache:
        clock_s, used_s = first_row("gamay", folders["gamay"], SQL, {"GAMAY_CACHE_DIR": cache})
    found.add(_NEW, f"{clock_s:.2f} s", f"{used_s:.2f} s")
    found.finish(writes=arguments.write_docs)


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


if __name__ == "__main__":
    main()
