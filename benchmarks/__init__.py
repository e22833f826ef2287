"""Benchmarks: each prints ratios to another system measured in the same run. `make bench` runs `benchmarks.compare`."""
