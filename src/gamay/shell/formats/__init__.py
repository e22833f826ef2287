"""Rows in a form: for people (`table`, `line`), for documents (`markdown`), and for programs (the others).

In: an `Answer` and where it goes. Out: text, or bytes of files. `WRITERS` in `gamay.shell.formats.write` has them by name;
people's forms show times as dates, programs' forms have the values.
"""
