"""The process killed by test_kill: pushes segments (or appends rows) forever, and prints each acknowledged one."""

import sys
from pathlib import Path

import httpx
import pyarrow as pa

import gamay
from gamay.embedded import EmbeddedCluster


def push(data_dir: str, archives: list[str], first: int) -> None:
    cluster = EmbeddedCluster(data_dir, 0, 0, 0, threads=1, warm_up=False).start()
    print("ready", flush=True)
    with httpx.Client(base_url=cluster.controller_url, timeout=60) as client:
        for archive in archives[first:]:
            with open(archive, "rb") as file:
                answer = client.post("/v2/segments", params={"tableName": "trips"}, files={"file": file})
            assert answer.status_code == 200, answer.text
            print(Path(archive).name.partition(".")[0], flush=True)
    print("end", flush=True)


def append(data_dir: str, first: int) -> None:
    database = gamay.connect(data_dir, threads=1)
    print("ready", flush=True)
    for i in range(first, first + 1000):
        database.append("numbers", pa.table({"batch": [i] * 10, "n": list(range(10))}))
        print(i, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "push":
        push(sys.argv[2], sys.argv[4:], int(sys.argv[3]))
    else:
        append(sys.argv[2], int(sys.argv[3]))
