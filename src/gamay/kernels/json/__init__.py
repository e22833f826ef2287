"""JSON texts: values by path, leaves, numbers."""
