"""Options of a rebalance."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RebalanceOptions:
    """The options of a rebalance, with the names (in snake case) and defaults of the REST interface.

    min_available_replicas: the number of replicas that stay available; -n allows n replicas to be unavailable.
    batch_size_per_server: the number of segments that a server gets in one step; -1 for no limit. Times are in
    milliseconds. max_attempts includes those that the checker starts after a controller died.
    """

    dry_run: bool = False
    pre_checks: bool = False
    disable_summary: bool = False
    reassign_instances: bool = True
    include_consuming: bool = True
    minimize_data_movement: str = "ENABLE"
    bootstrap: bool = False
    downtime: bool = False
    allow_peer_download_data_loss: bool = False
    min_available_replicas: int = -1
    low_disk_mode: bool = False
    best_efforts: bool = False
    batch_size_per_server: int = -1
    external_view_check_interval_in_ms: int = 1000
    external_view_stabilization_timeout_in_ms: int = 3_600_000
    heartbeat_interval_in_ms: int = 300_000
    heartbeat_timeout_in_ms: int = 3_600_000
    max_attempts: int = 3
    retry_initial_delay_in_ms: int = 300_000
    update_target_tier: bool = False
    disk_utilization_threshold: float = -1.0
    force_commit: bool = False
    force_commit_batch_size: int = _INT_MAX
    force_commit_batch_status_check_interval_ms: int = 5_000
    force_commit_batch_status_check_timeout_ms: int = 180_000

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "RebalanceOptions":
        """Parse options by their REST names; values may be strings. Raises InvalidConfigError."""
        known = {_wire_name(field.name): field for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise InvalidConfigError(f"rebalance: unknown option '{name}'.{nearest(name, known)}")
            default = known[name].default
            values[known[name].name] = _value(name, value, default)
        options = cls(**values)
        if options.minimize_data_movement not in ("ENABLE", "DISABLE", "DEFAULT"):
            raise InvalidConfigError(
                f"minimizeDataMovement: '{options.minimize_data_movement}' must be ENABLE, DISABLE or DEFAULT"
            )
        if options.batch_size_per_server == 0 or options.batch_size_per_server < -1:
            raise InvalidConfigError("batchSizePerServer must be a number of segments, or -1 for no limit")
        if options.pre_checks and not options.dry_run:
            raise InvalidConfigError("preChecks=true needs dryRun=true: the checks do not move segments")
        return options

    def to_json(self) -> dict[str, Any]:
        """Return the options by their REST names."""
        return {_wire_name(field.name): getattr(self, field.name) for field in fields(self)}


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _value(name: str, value: Any, default: Any) -> Any:
    text = str(value).strip()
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise InvalidConfigError(f"{name}: '{text}' must be true or false")
        return text.lower() == "true"
    if isinstance(default, str):
        return text.upper()
    try:
        return type(default)(text)
    except ValueError:
        raise InvalidConfigError(f"{name}: '{text}' must be a number") from None
