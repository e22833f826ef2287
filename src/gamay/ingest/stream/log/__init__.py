"""The embedded stream: partitioned topics, each partition an append-only log of files below the data folder.

Producers in any process append under a file lock and return when their messages are durable; consumers poll the files.
"""
