"""Star-trees: aggregates computed beforehand, for each combination of a few dimensions.

In: a segment and `starTreeIndexConfigs` (`definition`), from which `build` makes the files that
`gamay.segment.star_tree_file` describes. Out: for a query that a tree answers, the segment as a much smaller one
(`choose.tree_view`), whose rows are records of the tree and whose aggregates merge the partials in them (`stored_partials`).
Everything else, filters, groups, limits and FILTER clauses, is done by the engine as for any segment. Which combinations of
dimensions a tree keeps is decided in `lattice`.
"""
