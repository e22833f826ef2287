"""From the query model to a bound query: names, types, aggregates, and WHERE as a tree of predicates. Start at `binder`."""
