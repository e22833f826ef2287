"""A cluster of processes on one machine, and the operations that benchmarks run on it."""
