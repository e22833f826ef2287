"""Short path for queries whose indexes find a few rows in a few segments: grouped or sorted together, in a few steps.

Input: the rows that a filter matches, as pairs of a segment and the block to read there, and the query's shape. Output: a
table of groups, or the first rows in an order. The ordinary path and the short one (`gamay.query.prepared`) both end here,
so that their answers are bit-identical. Start with `gamay.query.few.groups`.
"""
