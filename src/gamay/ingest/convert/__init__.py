"""Values of any Arrow type as values of a column's type."""
