"""H3 index: the points of a column, grouped by H3 cells, for conditions on distances and areas.

`points` extracts the points of rows, `cells` groups them and has the layout on disk, `regions` decides for bounding boxes
whether a condition holds everywhere in them, and `index` combines these.
"""
