"""Output formats: for people (`table`, `line`), for documents (`markdown`), and for programs (the others).

In: an `Answer` and its destination. Out: text, or bytes of files. `WRITERS` in `gamay.shell.formats.write` has them by
name; formats for people show times as dates, formats for programs keep the values.
"""
