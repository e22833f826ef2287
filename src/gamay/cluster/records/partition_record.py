"""The record of instance partitions, which maps the partitions of a table to instances."""

from dataclasses import dataclass

from gamay.cluster.store.znrecord import ZNRecord


@dataclass(frozen=True, slots=True)
class InstancePartitions:
    """Instance partitions. groups: instances by partition and replica group; every partition has the same number of
    groups."""

    name: str
    groups: tuple[tuple[tuple[str, ...], ...], ...]

    @property
    def num_partitions(self) -> int:
        return len(self.groups)

    @property
    def num_replica_groups(self) -> int:
        return len(self.groups[0])

    @property
    def is_plain(self) -> bool:
        """Whether replicas may go to any of the instances."""
        return self.num_partitions == self.num_replica_groups == 1

    @property
    def instances(self) -> tuple[str, ...]:
        """All instances, ascending."""
        return tuple(sorted({instance for groups in self.groups for group in groups for instance in group}))

    @classmethod
    def from_record(cls, record: ZNRecord) -> "InstancePartitions":
        """Convert from a record. Raises ValueError for one without entries, or with keys that do not count from 0_0."""
        keys = {tuple(map(int, key.split("_"))): tuple(instances) for key, instances in record.lists.items()}
        num_partitions = 1 + max((key[0] for key in keys), default=-1)
        num_groups = 1 + max((key[1] for key in keys), default=-1)
        if not keys or len(keys) != num_partitions * num_groups:
            raise ValueError(f"instance partitions {record.id} must have an entry for each partition and replica group")
        groups = tuple(tuple(keys[partition, group] for group in range(num_groups)) for partition in range(num_partitions))
        return cls(record.id, groups)

    def to_record(self) -> ZNRecord:
        return ZNRecord(self.name, lists={key: list(instances) for key, instances in self.to_map().items()})

    def to_map(self) -> dict[str, list[str]]:
        """Return the entries as clients see them."""
        return {
            f"{partition}_{group}": list(instances)
            for partition, groups in enumerate(self.groups)
            for group, instances in enumerate(groups)
        }
