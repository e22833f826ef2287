"""A table as a DataFrame, in one call."""

from collections.abc import Sequence
from typing import Any

FORMAT = "gamay"


def read_table(
    spark: Any,
    controller: str,
    table: str,
    *,
    table_type: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    auth_token: str | None = None,
) -> Any:
    """Return the rows of a table as a DataFrame of the format `gamay`, which is registered first.

    table_type: OFFLINE or REALTIME, None for both. columns: the columns to read, None for all. where: a SQL condition that
    selects the rows to read. Raises InvalidConfigError for an unknown column.
    """
    from gamay.spark.source import register

    register(spark)
    reader = spark.read.format(FORMAT).option("controller", controller).option("table", table)
    given = {"tableType": table_type, "columns": None if columns is None else ",".join(columns), "token": auth_token}
    given["where"] = where
    for name, value in given.items():
        if value is not None:
            reader = reader.option(name, value)
    return reader.load()
