import os

import pytest
from tests.simulation.cluster import Simulation

SEEDS = int(os.environ.get("GAMAY_SIMULATION_SEEDS", "200"))
FIRST = int(os.environ.get("GAMAY_SIMULATION_FIRST", "0"))
_CHUNK = 50


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, _CHUNK))
def test_every_run_converges_and_counts_each_row_once(first: int) -> None:
    for seed in range(first, min(first + _CHUNK, FIRST + SEEDS)):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{simulation.profile}") from error
