"""Vector index: the rows whose vectors are likely to be the nearest to one, in a graph (HNSW) or in lists (IVF).

In: a multi-value FLOAT column, all of whose vectors have the dimension that the settings say. Out: candidates with their
vectors (`gamay.segment.spi.Neighbours`), whose distances the query then computes and compares as a scan does.

How far a search has to go is not guessed: when an index is built, vectors of the segment itself are looked for, and the
effort with which most of their true neighbours are found is noted as that of its queries.

`index_type` is the contract's side, `space` has the vectors and their distances, `hnsw` and `ivf` the two kinds of index.
"""
