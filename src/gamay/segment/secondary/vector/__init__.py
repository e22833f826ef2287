"""Vector index: approximate nearest neighbours of a vector, by a graph (HNSW) or by lists (IVF).

In: a multi-value FLOAT column whose vectors all have the dimension in the settings. Out: candidates with their
vectors (`gamay.segment.spi.Neighbours`), whose distances the query then computes and compares like a scan.

The search effort is calibrated: when an index is built, vectors of the segment itself are searched for, and the
effort that finds most of their true neighbours is stored for queries.

`index_type` implements the interface, `space` has the vectors and their distances, `hnsw` and `ivf` the two kinds.
"""
