"""Queries and results as buffers, for brokers and servers in different processes.

`gamay.query.wire.request` writes a bound query and reads it back; `gamay.query.wire.result` writes a server's result and
reads it back.
found and reads it again.
"""
