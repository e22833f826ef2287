"""Conversion of values of any Arrow type to a column's type."""
