"""Functions of geometries and geohashes."""
