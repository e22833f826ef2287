"""Tables as Python objects: queries without SQL, and profiles of columns.

In: a function that runs SQL, of a `Database` or a `Connection`, and the name of a table. Out: one flat SELECT for a chain
of `filter`, `group_by`, `agg`, … (`gamay.client.tables.table`), which uses indexes like any other; profiles of
columns (`gamay.client.tables.profile`). Expressions are in `gamay.client.tables.expression`.
"""

from gamay.client.tables.expression import Expression, call, col, count, raw
from gamay.client.tables.table import Table

__all__ = ["Expression", "Table", "call", "col", "count", "raw"]
