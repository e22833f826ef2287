"""Consuming one partition of a stream into a segment, until the segment is committed or fetched.

`gamay.server.consuming.machine` decides, without a thread, a clock or a network; `gamay.server.consuming.consumer` is the
thread that executes its decisions, with its parts: `gamay.server.consuming.consumption`, `gamay.server.consuming.successor`,
`gamay.server.consuming.building` and `gamay.server.consuming.commit`.
"""
