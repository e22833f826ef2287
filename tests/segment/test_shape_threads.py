"""Segments are loaded concurrently, so a process's first checks of metadata may run at the same time."""

import subprocess
import sys

_SCRIPT = """
import importlib, sys, threading, time
from gamay.segment.encode import shape

sys.setswitchinterval(1e-6)
column = {"name": "x", "dataType": "INT", "singleValue": True, "encoding": "e", "idBits": 3, "packed": False}
document = {"name": "a", "table": "t", "crc": 1, "creationTimeMs": 5, "numDocs": 3, "startTimeMs": 1, "columns": [column]}

def check(module, start_s):
    while time.perf_counter() < start_s:
        pass
    try:
        module.check_shape(document)
    except ValueError:
        pass

for _ in range(100):
    module = importlib.reload(shape)  # its types are new again
    start_s = time.perf_counter() + 1e-3
    threads = [threading.Thread(target=check, args=(module, start_s + i * 2e-5)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_the_first_checks_may_come_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
