"""The aim of a rebalance: the instance partitions and the target that a config demands, and whether it is allowed."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.place.rebalance_steps import States, StepRules, available_min
from gamay.cluster.place.table_target import TablePlan, target_states, tier_of
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.cluster.records.records import Assignment, SegmentRecord
from gamay.controller.context import ControllerContext
from gamay.controller.placement import PlacementManager
from gamay.controller.rebalance.jobs import RebalanceJob
from gamay.controller.rebalance.report import RebalanceResult, moves_summary


@dataclass(frozen=True, slots=True)
class Aim:
    """The aim of a rebalance. seen: the ideal state from which the target was computed, or that after the last step."""

    plan: TablePlan
    target: States
    seen: States
    rules: StepRules


class RebalanceAims:
    """Planner of rebalances."""

    def __init__(self, context: ControllerContext, placement: PlacementManager) -> None:
        self._context = context
        self._placement = placement

    def work_out(self, job: RebalanceJob, ideal: Assignment) -> tuple[RebalanceResult, Aim]:
        """Return the result of a rebalance and its aim; unless it is a dry run, changed instance partitions are stored.

        Raises GamayError for a rebalance that is not allowed.
        """
        options = job.options
        if not ideal.enabled and not options.downtime:
            raise InvalidConfigError(f"Table {job.table} is disabled; rebalance it with downtime=true")
        changed = self._partitions(job) if options.reassign_instances else []
        aim = self.aim(job, ideal, changed)
        partitions = tuple(sorted(aim.plan.partitions.items()))
        moved = not same(aim.target, ideal.states)
        reassigned = any(self._placement.stored(part.name) != part for part in changed)
        if moved:
            status, text = "IN_PROGRESS", "Rebalance is in progress"
        else:
            status = "DONE" if reassigned else "NO_OP"
            text = "Instance partitions changed, no segment moves" if reassigned else "Table is already balanced"
        if options.dry_run and moved:
            status, text = "DONE", "Dry run: these are the changes that it would make"
        elif not options.dry_run:
            for part in changed:
                self._placement.store(part)
        summary = None if options.disable_summary else moves_summary(ideal.states, aim.target, aim.plan.records)
        checks = self._checks(job, aim) if options.pre_checks else None
        return RebalanceResult(job.id, status, text, partitions, aim.target, summary, checks), aim

    def _partitions(self, job: RebalanceJob) -> list[InstancePartitions]:
        """Return the instance partitions that the table's config demands; tables without such a config have none."""
        config = self._placement.tables.get(job.table)
        movement = job.options.minimize_data_movement
        changed = []
        for kind in [*self._placement.kinds(config), *(tier.name for tier in config.tiers)]:
            wanted = config.effective_assignment.get(kind)
            if wanted is None:
                continue
            stay = wanted.minimize_data_movement if movement == "DEFAULT" else movement == "ENABLE"
            stay = stay and not job.options.bootstrap
            present = self._placement.computed(config, kind)
            stored = self._placement.stored(present.name)
            changed.append(self._placement.computed(config, kind, existing=stored) if stay and stored else present)
        return changed

    def aim(self, job: RebalanceJob, ideal: Assignment, changed: list[InstancePartitions]) -> Aim:
        """Return the target for an ideal state. changed: instance partitions that override the stored ones."""
        plan = self._placement.plan(job.table, changed)
        if job.options.update_target_tier and not job.options.dry_run:
            plan = self._stamp_tiers(plan)
        target = target_states(
            plan, ideal.states, include_consuming=job.options.include_consuming, bootstrap=job.options.bootstrap
        )
        least = 0 if job.options.downtime else available_min(job.options.min_available_replicas, ideal.states, target)
        self._check_copies(job, plan, ideal.states, target, least)
        rules = StepRules(
            least,
            None if job.options.batch_size_per_server < 0 else job.options.batch_size_per_server,
            job.options.low_disk_mode,
            plan.is_strict or plan.config.routing.instance_selector_type == "strictReplicaGroup",
        )
        return Aim(plan, target, ideal.states, rules)

    def _check_copies(self, job: RebalanceJob, plan: TablePlan, present: States, target: States, least: int) -> None:
        """Raise InvalidConfigError if a segment whose only copies are on servers would lose all of them at once."""
        if least > 0 or job.options.allow_peer_download_data_loss:
            return
        for segment, after in target.items():
            record = plan.records.get(segment)
            alone = record is not None and record.complete and not record.download_url
            if alone and not set(present[segment]) & set(after):
                raise InvalidConfigError(
                    f"segment {segment} has no copy in the deep store, and no server that has it would keep it; "
                    "wait until it is uploaded, raise minAvailableReplicas, or allow allowPeerDownloadDataLoss=true"
                )

    def _stamp_tiers(self, plan: TablePlan) -> TablePlan:
        """Write the target tiers into the segments' records, so that servers load them with the settings of their
        tier."""
        records = dict(plan.records)
        for name, record in plan.records.items():
            stamped = record.with_changes(tier=tier_of(record, plan.config.tiers, plan.now_ms) or "")
            if record.complete and record != stamped:
                self._context.registry.update_segment(plan.config.typed_name, name, partial(_on_tier, tier=stamped.tier))
                records[name] = stamped
        return replace(plan, records=records)

    def _checks(self, job: RebalanceJob, aim: Aim) -> dict[str, Any]:
        config = aim.plan.config
        servers = {server for states in aim.seen.values() for server in states}
        stale = sorted(server for server in servers if self._has_stale(server, job.table))
        keeps = any(wanted.minimize_data_movement for wanted in config.effective_assignment.values())
        keeps = keeps or job.options.minimize_data_movement == "ENABLE"
        return {
            "needReloadStatus": _check(
                not stale,
                "No server has segments to reload" if not stale else f"Reload the table first: {', '.join(stale)} need it",
            ),
            "isMinimizeDataMovement": _check(
                keeps or not config.effective_assignment,
                "Instances keep their places as far as possible" if keeps else "minimizeDataMovement is not enabled",
            ),
            "rebalanceConfigOptions": _check(
                not (job.options.downtime and config.replication > 1),
                "downtime=true makes segments unavailable although they have other replicas"
                if job.options.downtime and config.replication > 1
                else "All rebalance parameters look good",
            ),
        }

    def _has_stale(self, server: str, table: str) -> bool:
        try:
            return bool(self._context.servers.stale_segments(server, table))
        except NotFoundError:
            return False


def _on_tier(record: SegmentRecord | None, tier: str) -> SegmentRecord | None:
    return None if record is None else record.with_changes(tier=tier)


def same(left: States, right: States) -> bool:
    """Return whether two ideal states are equal."""
    return left.keys() == right.keys() and all(dict(left[segment]) == dict(right[segment]) for segment in left)


def _check(passed: bool, message: str) -> dict[str, str]:
    return {"preCheckStatus": "PASS" if passed else "WARN", "message": message}
