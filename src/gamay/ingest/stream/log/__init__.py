"""The embedded stream: topics of partitions, each an append-only log in files below the data folder.

Producers in any process append under a file lock and return when their messages are durable; consumers follow the files.
"""
