"""Plans that serve again: kept by the text of their statement, and filled with the constants of another one.

In: a statement, and what plans one. Out: its plan, made anew or of one that was kept. Start with `cache`.
"""
