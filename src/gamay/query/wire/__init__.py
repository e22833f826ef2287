"""Queries and results as buffers, for brokers and servers in different processes.

`gamay.query.wire.request` writes a bound query and reads a plan of it; `gamay.query.wire.result` writes what a server
found and reads it again.
"""
