"""The query engine: pruning, filters, grouping, selection, combining and reducing."""
