"""Topics repartitioned by a table's partition function: messages of one topic in, the same ones in another, each where its
key belongs.

In: the topics' stream configs, a table's schema and config. Out: a streaming query. Start at `job`.
"""
