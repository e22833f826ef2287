"""PQL, the query language before SQL."""
