"""Rules for the two halves of a hybrid table."""

from collections.abc import Iterator

from gamay.model.table.table_config import TableConfig


def hybrid_problems(offline: TableConfig, realtime: TableConfig) -> Iterator[str]:
    """Yield a sentence for each violation: queries go to both halves by one time column, and to the same brokers."""
    times = offline.time_column, realtime.time_column
    if None in times or times[0] != times[1]:
        yield (
            f"a table with both types needs one segmentsConfig.timeColumnName: the OFFLINE half has {_shown(times[0])}, the "
            f"REALTIME half {_shown(times[1])}"
        )
    brokers = offline.tenants.broker, realtime.tenants.broker
    if brokers[0] != brokers[1]:
        yield (
            f"a table with both types needs one broker tenant: the OFFLINE half has '{brokers[0]}', the REALTIME half "
            f"'{brokers[1]}'"
        )
    if realtime.upsert is not None and realtime.upsert.mode == "PARTIAL":
        yield (
            "upsertConfig.mode is PARTIAL; a table with both types supports FULL only: rows are not merged with those of "
            "the OFFLINE half"
        )


def _shown(name: str | None) -> str:
    return "none" if name is None else f"'{name}'"
