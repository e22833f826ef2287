"""Benchmarks of kernels and encodings on their own."""
