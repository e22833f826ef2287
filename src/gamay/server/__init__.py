"""The server: loads the segments that the ideal states assign to it, swaps them while queries run, and executes queries.

`gamay.server.instance.instance.ServerInstance` follows the ideal states, `gamay.server.loading.loader.SegmentLoader`
downloads,
verifies and opens, `gamay.server.loading.table.TableData` holds what queries see,
`gamay.server.answering.executor.QueryExecutor` runs them.
"""
