"""Steps from the current ideal state to another one that keep enough replicas available.

Pure functions. After each step the caller waits until the servers have reached the ideal state, and computes the next
one. In every step all segments with the same present and future instances move alike, so that replica groups stay whole.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gamay.base.errors import InvalidConfigError

States: TypeAlias = Mapping[str, Mapping[str, str]]
Pair: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class StepRules:
    """Constraints of a step.

    available_min: replicas of each segment that must stay. added_max: segments that a server gets in one step; None for
    no limit. low_disk: a server drops leaving segments before it gets new ones. strict: queries read all segments on the
    same instances from one of these, so enough of the instances must stay for all of the segments together.
    """

    available_min: int
    added_max: int | None = None
    low_disk: bool = False
    strict: bool = False


def available_min(wanted: int, present: States, target: States) -> int:
    """Return the number of replicas that must stay available: `wanted`, or all but -wanted if it is negative.

    Raises InvalidConfigError if that is impossible because a moving segment will not have more replicas.
    """
    moving = [segment for segment in target if segment in present and set(present[segment]) != set(target[segment])]
    if not moving:
        return 0
    replicas = min(len(target[segment]) for segment in moving)
    if wanted >= replicas:
        raise InvalidConfigError(
            f"minAvailableReplicas {wanted} leaves no replica to move: there are {replicas} of each segment; lower it, give "
            "a negative number (-1 allows one unavailable replica at a time), or allow downtime=true"
        )
    found = wanted if wanted >= 0 else max(replicas + wanted, 0)
    return min(found, min(len(present[segment]) for segment in moving))


def next_step(present: States, target: States, rules: StepRules) -> dict[str, dict[str, str]]:
    """Return the next ideal state; `target` itself if one step is enough.

    Segments that `target` does not name stay as they are.
    """
    offload = _offload(present, target)
    alike: dict[Pair, list[str]] = {}
    for segment in sorted(segment for segment in present if segment in target):
        pair = tuple(sorted(present[segment])), tuple(sorted(target[segment]))
        alike.setdefault(pair, []).append(segment)
    result = {segment: dict(states) for segment, states in present.items()}
    added: Counter[str] = Counter()
    stays: dict[frozenset[str], set[str]] = {}  # instances that stay available for all segments with the same next instances
    for (before, after), segments in sorted(alike.items()):
        chosen = _next_instances(before, after, rules, offload)
        common = set(before) & set(chosen)
        if rules.strict:
            common &= stays.get(frozenset(chosen), common)
            if len(common) < min(rules.available_min, len(before)):
                continue  # these segments wait until the others have arrived
        comes = [instance for instance in chosen if instance not in before]
        moving = segments[: _room(segments, comes, added, rules)]
        if moving and rules.strict:
            stays[frozenset(chosen)] = common
        for segment in moving:
            result[segment] = _with_states(chosen, present[segment], target[segment])
        added.update({instance: len(moving) for instance in comes})
    return result


def _room(segments: Sequence[str], comes: Sequence[str], added: Counter[str], rules: StepRules) -> int:
    """Return how many of these segments may move in this step; with `strict`, all or none of them, but always the
    first group."""
    if rules.added_max is None or not comes:
        return len(segments)
    most = max(added[instance] for instance in comes)
    if rules.strict:
        return len(segments) if most == 0 or most + len(segments) <= rules.added_max else 0
    return max(0, rules.added_max - most)


def _offload(present: States, target: States) -> Counter[str]:
    """Return the total number of segments that each instance loses."""
    offload: Counter[str] = Counter()
    for segment, after in target.items():
        offload.update(present.get(segment, {}).keys())
        offload.subtract(after.keys())
    return offload


def _next_instances(before: Sequence[str], after: Sequence[str], rules: StepRules, offload: Counter[str]) -> tuple[str, ...]:
    """Return the instances of a segment after the next step: those that stay, as many leaving ones as needed, new ones.

    If none has to stay, one does until the new ones have arrived, unless `low_disk` is set: a segment with one
    replica stays available while it moves.
    """
    common = [instance for instance in before if instance in after]
    leaving = sorted((i for i in before if i not in after), key=lambda i: (offload[i], i))
    kept = [*common, *leaving[: max(0, rules.available_min - len(common))]]
    if rules.low_disk and 0 < len(kept) < len(before):
        return tuple(kept)
    coming = sorted((i for i in after if i not in before), key=lambda i: (offload[i], i))
    if not kept and not rules.low_disk:
        return (*leaving[:1], *coming)
    return (*kept, *coming[: max(0, len(after) - len(kept))])


def _with_states(chosen: Sequence[str], before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    state = next(iter(after.values()))
    return {instance: after.get(instance) or before.get(instance) or state for instance in sorted(chosen)}
