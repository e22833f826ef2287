"""The broker's HTTP interface: the short path from a socket to an answer, and the application for everything else."""
