"""A cluster of processes on one machine, and what benchmarks do to it."""
