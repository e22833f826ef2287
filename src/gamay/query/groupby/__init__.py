"""Grouping: the rows of one segment to a table of groups, and tables of groups to one."""
