import pytest
from tests.seeds import by_first, chunks, count_of
from tests.simulation.cluster import Simulation

SEEDS = count_of("GAMAY_SIMULATION_SEEDS", 100)
_CHUNK = 50


@pytest.mark.parametrize("some", chunks(SEEDS, _CHUNK), ids=by_first)
def test_every_run_converges_and_counts_each_row_once(some: range) -> None:
    for seed in some:
        simulation = Simulation(seed)
        try:
            simulation.run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{simulation.profile}") from error
