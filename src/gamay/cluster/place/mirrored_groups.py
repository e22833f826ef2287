"""Replica groups whose instances at one position hold the same segments and do not fail together.

Pure functions. Either pools are fault domains (racks, zones), and the instances at one position are spread over as many
as possible; or the instances that belong together are configured: the server sets of other instance partitions.
"""

from collections.abc import Sequence

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.partition_record import InstancePartitions


def over_fault_domains(
    num_groups: int, size: int, domains: Sequence[Sequence[str]], first: int, where: str, existing: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """Return the instances of each replica group; those at one position are in different domains, or evenly in all.

    size: instances of a group, 0 for as many as possible. domains: the candidates of each. first: the rotation of the
    table. existing: the groups so far; instances keep their places if the other places can still be filled. Raises
    InvalidConfigError if there are too few instances.
    """
    most = -(-num_groups // len(domains))  # of one domain at a position
    possible = [s for s in range(1, 1 + max(map(len, domains)) * len(domains)) if _has_room(s, num_groups, most, domains)]
    size = size or max(possible, default=0)
    if size not in possible:
        raise InvalidConfigError(
            f"{where}: {num_groups} replica groups of {max(1, size)} instances, with at most {most} of one pool at each "
            f"place, cannot be formed from pools of {', '.join(str(len(domain)) for domain in domains)} servers"
        )
    turned = [domains[(first + i) % len(domains)] for i in range(len(domains))]
    kept = _dealt(num_groups, size, most, turned, existing)
    found = kept if kept is not None else _dealt(num_groups, size, most, turned, ())
    assert found is not None  # taking from the fullest domains never fails where there is room
    return found


def _has_room(size: int, num_groups: int, most: int, domains: Sequence[Sequence[str]]) -> bool:
    return sum(min(len(domain), size * most) for domain in domains) >= size * num_groups


def _dealt(
    num_groups: int, size: int, most: int, domains: Sequence[Sequence[str]], existing: Sequence[Sequence[str]]
) -> list[tuple[str, ...]] | None:
    """Return the groups; None if the instances that keep their places leave no way to fill the rest."""
    domain_of = {instance: number for number, domain in enumerate(domains) for instance in domain}
    slots: list[list[str | None]] = [[None] * size for _ in range(num_groups)]
    used = [[0] * len(domains) for _ in range(size)]
    taken: set[str] = set()
    for group, members in zip(slots, existing, strict=False):
        for place, instance in enumerate(members[:size]):
            domain = domain_of.get(instance)
            if domain is not None and instance not in taken and used[place][domain] < most:
                group[place] = instance
                used[place][domain] += 1
                taken.add(instance)
    free = [[instance for instance in domain if instance not in taken] for domain in domains]
    for place in range(size):
        holes = [number for number, group in enumerate(slots) if group[place] is None]
        chosen: list[int] = []
        for _ in holes:
            open_ones = [d for d in range(len(domains)) if used[place][d] < most and free[d][chosen.count(d) :]]
            if not open_ones:
                return None
            domain = max(open_ones, key=lambda d: (len(free[d]) - chosen.count(d), -used[place][d], -d))
            used[place][domain] += 1
            chosen.append(domain)
        for number in holes:  # if a domain fails, few groups should lose instances
            own = [domain_of[instance] for instance in slots[number] if instance is not None]
            domain = max(chosen, key=lambda d: (own.count(d), -((d - number) % len(domains))))
            chosen.remove(domain)
            slots[number][place] = free[domain].pop(0)
    return [tuple(instance for instance in group if instance is not None) for group in slots]


def of_server_sets(
    num_groups: int, size: int, sets: InstancePartitions, candidates: set[str], first: int, where: str,
    existing: Sequence[Sequence[str]],
) -> list[tuple[str, ...]]:  # fmt: skip
    """Return the instances of each replica group: the servers at one position of `sets` stay together.

    size: instances of a group, 0 for all. candidates: the servers that carry the tag. existing: the groups so far, whose
    sets keep their places. Raises InvalidConfigError if the sets do not match.
    """
    rows = sets.groups[0]
    if sets.num_partitions != 1 or len({len(row) for row in rows}) != 1:
        raise InvalidConfigError(
            f"{where}: instance partitions {sets.name} are no server sets: they need one partition, and as many servers in "
            "each replica group"
        )
    if len(rows) != num_groups:
        raise InvalidConfigError(
            f"{where}: numReplicaGroups is {num_groups}, instance partitions {sets.name} have {len(rows)} of them"
        )
    columns = [column for column in zip(*rows, strict=True) if candidates.issuperset(column)]
    size = size or len(columns)
    if not 0 < size <= len(columns):
        raise InvalidConfigError(
            f"{where}: {max(1, size)} server sets are wanted, and instance partitions {sets.name} have {len(columns)} "
            "whose servers all carry the tag"
        )
    turned = [columns[(first + i) % len(columns)] for i in range(len(columns))]
    before = list(zip(*existing, strict=False))[:size]
    places: list[tuple[str, ...] | None] = [column if column in columns else None for column in before]
    places += [None] * (size - len(places))
    left = iter([column for column in turned if column not in places])
    filled = [next(left) if column is None else column for column in places]
    return list(zip(*filled, strict=True))
