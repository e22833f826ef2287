"""The parameters of a simulated run."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """The parameters of a run."""

    partitions: int
    replicas: int
    servers: int
    controllers: int
    pauseless: bool
    split_commit: bool
    rows_per_segment: int
    rows_per_s: float
    loss: float
    duplicates: float
    slow: float
    kill_every_ms: int
    pause_chance: float
    store_failures: float
    stop_chance: float
    grows: bool
    rests: bool
    faults_ms: int = 1_000_000
    calm_ms: int = 1_700_000

    @staticmethod
    def draw(rng: random.Random) -> "Profile":
        replicas = rng.choice((1, 2, 2, 3))
        return Profile(
            partitions=rng.choice((1, 1, 2, 3)),
            replicas=replicas,
            servers=replicas + rng.choice((0, 0, 1)),
            controllers=rng.choice((1, 2, 2, 3)),
            pauseless=rng.random() < 0.35,
            split_commit=rng.random() < 0.8,
            rows_per_segment=rng.choice((100, 200, 500)),
            rows_per_s=rng.choice((0.5, 1.0, 1.5)),
            loss=rng.choice((0.0, 0.02, 0.1, 0.3)),
            duplicates=rng.choice((0.0, 0.05, 0.2)),
            slow=rng.choice((0.0, 0.05, 0.2)),
            kill_every_ms=rng.choice((0, 60_000, 200_000, 600_000)),
            pause_chance=rng.choice((0.0, 0.03, 0.15)),
            store_failures=rng.choice((0.0, 0.0, 0.01, 0.05)),
            stop_chance=rng.choice((0.0, 0.0, 0.002, 0.02)),
            grows=rng.random() < 0.2,
            rests=rng.random() < 0.2,
        )
