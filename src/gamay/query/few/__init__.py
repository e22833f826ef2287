"""Few rows that indexes find in a few segments, made groups or put in order together, in a few steps.

In: the rows that a filter lets through, as pairs of a segment and the block to read there, and what is known of the query's
shape. Out: a table of groups, or the first rows in an order. The ordinary way and the short one (`gamay.query.prepared`)
both come here, so that their answers are the same to the last bit. Start with `gamay.query.few.groups`.
"""
