"""Star-trees: aggregates precomputed for each combination of a few dimensions.

Input: a segment and `starTreeIndexConfigs` (`definition`), from which `build` creates the files that
`gamay.segment.star_tree_file` describes. Output: for a query that a tree answers, a much smaller segment
(`choose.tree_view`), whose rows are records of the tree and whose aggregates merge the partials in them (`stored_partials`).
Filters, groups, limits and FILTER clauses are processed by the engine as for any segment. `lattice` decides which
combinations of dimensions a tree stores.
"""
