"""Which indexes would help queries, by what they filter.

In: queries as text, a schema, and what is known of the columns. Out: candidates for indexes. `gamay index advise` builds
them for a segment and measures what each one saves; the controller's recommender shows them as they are.
"""
