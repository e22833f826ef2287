"""Segments from files and DataFrames on executors: ranges, sorting, one task each, pushing what a job built.

Start at `segments`.
"""
