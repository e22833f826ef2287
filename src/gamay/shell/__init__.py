"""The SQL shell `gamay sql`, for terminals and scripts; `gamay query` is its one-shot form.

In: a target (a data folder, the URL of a controller or broker, a profile) and statements, typed or from files. Out: rows in
one of `gamay.shell.formats`, errors with the position underlined. The commands call `gamay.shell.main.run`; from there,
`gamay.shell.statements` splits scripts and `gamay.shell.repl` reads statements interactively. `gamay.shell.session` gives
this process and a cluster the same interface; notebooks use it, too.
"""
