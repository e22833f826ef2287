"""Randomness as an argument."""

import random


def new_rng(seed: int | None = None) -> random.Random:
    """Return a generator of random numbers; without a seed, one that the system seeds."""
    return random.Random(seed)
