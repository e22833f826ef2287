"""Limits on the memory of a server's queries, from the cluster's settings, with immediate effect."""

import logging
from collections.abc import Callable

from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.store import StoreUnavailableError
from gamay.query.limits.budget import ProcessBudget, megabytes

_log = logging.getLogger(__name__)


def follow_settings(registry: Registry, budget: ProcessBudget) -> Callable[[], None]:
    """Apply the cluster's settings to a budget, now and after each change; return a function that stops it."""

    def apply(_: str) -> None:
        before = budget.total_bytes, budget.query_bytes, budget.space.max_bytes
        try:
            budget.apply(registry.cluster_config())
        except StoreUnavailableError:
            _log.warning("the limits of queries are read again when the metadata store is back")
            return
        if (budget.total_bytes, budget.query_bytes, budget.space.max_bytes) != before:
            _log.info("queries may hold %s, each %s", megabytes(budget.total_bytes), megabytes(budget.query_bytes))

    cancel = registry.store.watch(paths.CLUSTER_CONFIG, apply)
    apply(paths.CLUSTER_CONFIG)
    return cancel
