"""H3 index: the points of a column, grouped by the H3 cells that they lie in, for conditions about distance and areas.

`points` finds the points in rows, `cells` groups them and has the layout on disk, `regions` says for boxes of the plane
whether a condition holds everywhere in them, and `index` puts these together.
"""
