"""Translates sqlglot's tree to the query model: expressions, clauses, rewriting, constants."""
