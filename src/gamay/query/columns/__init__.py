"""Columns as arrays between the stages of a query: constants, concatenation and selection of rows, sort keys."""
