"""Index advice: which indexes would speed up queries, according to their filters.

The input is queries as text, a schema, and facts about the columns; the output is candidates for indexes. `gamay index
advise` builds them for a segment and measures their effect; the controller's recommender reports them directly.
"""
