"""Many random histories of a table with `upsertConfig`, compared with the plain model of the tests.

`python -m benchmarks.upsert_histories --count 50000 [--first SEED]`; run it in the root of the repository, as it uses
`tests.naive.upsert_histories`. A number is a seed: a difference is shown with it, and `--first SEED --count 1` repeats it.
`--protected` has commits forced in between, after which a replica that was ahead gives rows back.
"""

import argparse
import shutil
import tempfile
import time
import traceback
from pathlib import Path

from tests.naive.upsert_histories import History

REPORT_EVERY = 1000


def run(first: int, count: int, protects: bool) -> int:
    """Run the histories of these seeds; return the number of differences."""
    differing = []
    memory = Path("/dev/shm")  # snapshots are synced to it for nothing, where there is one
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        begun = time.process_time()
        for done, seed in enumerate(range(first, first + count), 1):
            try:
                History(seed, protects).run(Path(folder) / str(seed))
            except Exception:  # noqa: BLE001 - whatever goes wrong in one history, the others are of interest
                differing.append(seed)
                traceback.print_exc()
            shutil.rmtree(Path(folder) / str(seed), ignore_errors=True)
            if done % REPORT_EVERY == 0 or done == count:
                each = (time.process_time() - begun) / done
                print(
                    f"{done:>8,} histories  {len(differing)} differ {differing[:10]}  {each * 1000:.0f} ms each", flush=True
                )
    return len(differing)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--protected", action="store_true")
    arguments = parser.parse_args()
    raise SystemExit(1 if run(arguments.first, arguments.count, arguments.protected) else 0)
