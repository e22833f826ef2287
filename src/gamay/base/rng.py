"""Randomness as an argument."""

import random


def new_rng(seed: int | None = None) -> random.Random:
    """Return a random number generator; without a seed, the system seeds it."""
    return random.Random(seed)
