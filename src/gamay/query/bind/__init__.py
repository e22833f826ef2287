"""Binds the query model to a schema: names, types, aggregates, and WHERE as a tree of predicates. Start at `binder`."""
