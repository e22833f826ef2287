"""Scalar functions: one module for each family, found through the registry."""
