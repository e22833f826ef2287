"""New segments from existing ones, for maintenance: rows are selected and rounded by time, split, deduplicated or rolled up.

In: open segments and a `spec`. Out: folders of segments. All work is done by column. Start at
`output`: `timeline` selects the rows, `alike` numbers groups of rows to merge, `metrics` aggregates.
"""
