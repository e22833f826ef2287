"""Columns of rows as arrays, between the stages of a query: constants, joining and picking rows, sort keys."""
