"""Send a million damaged and hostile inputs to a cluster, while a bystander sends it small queries.

    python -m benchmarks.attack [--inputs 1000000] [--seed 1] [--only KIND ...] [--folder F]

A controller, a broker, a server and a minion, each a process with access control, and a ZooKeeper. To them go requests of
all routes with odd arguments, bytes that are nearly HTTP, queries that nobody would write, damaged frames from strangers
and from a member of the cluster, damaged calls of Flight SQL, requests by damaged sessions of the console, and damaged
archives and segments that are pushed to a table, which is then read. Segments, their indexes, archives and stored records
are also damaged in files, and opened in processes of their own. Whatever comes:

* no process ends, no answer is 500 or speaks of a defect, none takes longer than twice the deadline;
* the bystander's answers are right;
* memory comes back to at most 1.25 times what it was during the first half of the inputs.

Attackers run at the lowest priority, as they stand for other machines. Prints a table and what the bystander saw, and exits
with status 1 when something of that was not so; the folder with all logs then stays.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.attack.campaign import SHARES, Outcome, attack
from benchmarks.attack.findings import Verdict
from benchmarks.cluster.zookeeper import ZooKeeperProcess, what_is_missing

_SLOW_S = 2.0


def show(outcome: Outcome) -> None:
    """Print what was found."""
    table = Table("input", *(verdict.value for verdict in Verdict), "slowest s")
    for kind, found in outcome.findings.items():
        table.add_row(kind, *(f"{found.verdicts[verdict]:,}" for verdict in Verdict), f"{found.slowest_s:.2f}")
    console = Console(width=120)
    console.print(table)
    if seen := outcome.seen.seconds:
        times = ", ".join(f"p{share * 100:g} {outcome.seen.quantile_ms(share):.0f} ms" for share in (0.5, 0.99, 0.999))
        console.print(f"bystander: {len(seen):,} queries, {len(outcome.seen.wrong)} wrong, {times}")
    for kind, found in outcome.findings.items():
        if found.slowest_s > _SLOW_S:
            print(f"{kind}: {found.slowest_s:.1f} s for {found.slowest}")
    for role in outcome.resident[0] if outcome.resident else ():
        console.print(f"{role}, MB: " + " ".join(str(one[role] >> 20) for one in outcome.resident))
    for problem in outcome.all_problems:
        print(problem)


def main() -> int:
    """Attack, and return 1 when something broke."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=SHARES, default=list(SHARES))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if missing := what_is_missing():
        parser.error(missing)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="gamay-attack-"))
    folder.mkdir(parents=True, exist_ok=True)
    zookeeper = ZooKeeperProcess(folder)
    zookeeper.start()
    try:
        outcome = attack(folder, zookeeper, arguments.inputs, arguments.seed, arguments.only)
    finally:
        zookeeper.stop()
    show(outcome)
    if outcome.all_problems:
        print(f"{len(outcome.all_problems)} problems; logs are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
