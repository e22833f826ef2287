"""The effective settings of a table with primary keys."""
