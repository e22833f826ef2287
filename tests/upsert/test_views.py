"""Segments that were added lately."""

import random
from types import SimpleNamespace
from typing import Any

from gamay.upsert.views import NewSegments


def test_new_segments_are_named_for_a_while() -> None:
    rng, now_s = random.Random(1), [100.0]
    clock: Any = SimpleNamespace(monotonic_s=lambda: now_s[0])
    new, never, added = NewSegments(3000, clock), NewSegments(0, clock), list[tuple[str, float]]()
    for _ in range(500):
        name, action = f"s{rng.randrange(12)}", rng.random()
        added = [one for one in added if one[0] != name] if action < 0.7 else added
        if action < 0.5:
            new.note(name)
            never.note(name)
            added.append((name, now_s[0]))
        elif action < 0.7:
            new.forget(name)
        else:
            now_s[0] += rng.choice([0.0, 0.5, 1.0])
        assert new.names() == [name for name, at_s in added if now_s[0] - at_s < 3]
        assert never.names() == []
