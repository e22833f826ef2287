"""Segments made of others, for maintenance: rows chosen by time, rounded, split, and merged where they are alike.

In: opened segments and what is wanted (`spec`). Out: folders of segments. Everything goes column by column. Start at
`output`: `timeline` chooses the rows, `alike` numbers those that become one, `metrics` aggregates.
"""
