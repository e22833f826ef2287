"""PQL, the query language that preceded SQL."""
