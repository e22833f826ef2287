"""Configs of dimension tables."""

from typing import Any

SECTIONS: dict[str, Any] = {
    "isDimTable": True,
    "ingestionConfig": {"batchIngestionConfig": {"segmentIngestionType": "REFRESH"}},
}
"""What makes a table one."""


def dimension_config(name: str, **more: Any) -> dict[str, Any]:
    """Return the config of a dimension table of one replica, with more sections."""
    return {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
        **SECTIONS,
        **more,
    }
