"""Many random runs of a cluster that completes segments: messages are lost, late or duplicated, processes die.

`python -m benchmarks.completion_histories --count 100000 [--first SEED]`; run it in the root of the repository, as it uses
`tests.simulation.cluster`. A run is a function of its seed: one that breaks an invariant or does not settle is shown,
and `--first SEED --count 1` repeats it.
"""

import argparse
import logging
import time

from tests.simulation.cluster import Simulation

REPORT_EVERY = 1000


def run(first: int, count: int) -> int:
    """Run the simulations of these seeds; return the number of failures."""
    wrong: list[int] = []
    kills = messages = 0
    begun = time.process_time()
    for done, seed in enumerate(range(first, first + count), 1):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in one run, the others are of interest
            wrong.append(seed)
            print(f"seed {seed}: {error!r}\n  {simulation.profile}", flush=True)
        kills, messages = kills + simulation.kills, messages + simulation.messages
        if done % REPORT_EVERY == 0 or done == count:
            each = (time.process_time() - begun) / done
            print(
                f"{done:>8,} runs, {kills:,} processes killed, {messages:,} messages  {len(wrong)} wrong {wrong[:10]}  "
                f"{each * 1000:.0f} ms each", flush=True,
            )  # fmt: skip
    return len(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # what the simulated faults cause would be most of the output
    raise SystemExit(1 if run(arguments.first, arguments.count) else 0)
