"""Functions of JSON documents and maps: paths, conditions, values by key."""
