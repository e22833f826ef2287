"""The broker's HTTP interface: a fast path from the socket to the answer for queries, and an application for everything
else."""
