"""Servers apply the cluster's settings for the memory of queries."""

import logging
from pathlib import Path

import pytest
from tests.waiting import eventually

from gamay.base.clock import ManualClock
from gamay.cluster.records.registry import Registry
from gamay.cluster.store.embedded_store import EmbeddedStore
from gamay.cluster.store.store import StoreUnavailableError
from gamay.query.limits.budget import ProcessBudget
from gamay.server.answering.query_memory import follow_settings


def _sizes(budget: ProcessBudget) -> tuple[int, int, int | None]:
    return budget.total_bytes, budget.query_bytes, budget.space.max_bytes


def test_settings_take_effect_at_once_and_what_is_removed_is_the_default_again(tmp_path: Path) -> None:
    store = EmbeddedStore.open(tmp_path / "metadata.db", ManualClock(1))
    registry = Registry(store)
    registry.update_cluster_config({"gamay.query.memory.max.bytes": "300"})
    budget = ProcessBudget(1000, 500)
    cancel = follow_settings(registry, budget)
    assert _sizes(budget) == (1000, 300, None)
    registry.update_cluster_config({"gamay.query.memory.total.bytes": "200", "gamay.query.spill.max.bytes": "0"})
    eventually(lambda: _sizes(budget) == (200, 200, 0))
    registry.update_cluster_config({}, frozenset(registry.cluster_config()))
    eventually(lambda: _sizes(budget) == (1000, 500, None))
    cancel()
    store.close()


def test_without_the_store_the_last_settings_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = EmbeddedStore.open(tmp_path / "metadata.db", ManualClock(1))
    registry = Registry(store)

    def is_away(_: Registry) -> dict[str, str]:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(Registry, "cluster_config", is_away)
    budget = ProcessBudget(1000, 500)
    with caplog.at_level(logging.WARNING):
        follow_settings(registry, budget)()
    assert _sizes(budget) == (1000, 500, None)
    assert "read again when the metadata store is back" in caplog.text
    store.close()
