"""The server: loads the segments that the ideal states assign to it, swaps them while queries run, and executes queries.

`gamay.server.instance.ServerInstance` watches and decides, `gamay.server.loader.SegmentLoader` downloads, verifies and
opens, `gamay.server.table.TableData` holds what queries see, `gamay.server.executor.QueryExecutor` runs them.
"""
