"""Grouping: the rows of one segment into a table of groups, and tables of groups into one."""
