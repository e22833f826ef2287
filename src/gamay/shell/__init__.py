"""`gamay sql`: statements in, answers out, in a terminal or in a script; `gamay query` is its one-shot form.

In: a place (a data folder, the URL of a controller or broker, a profile) and statements, typed or from files. Out: rows in
one of `gamay.shell.formats`, errors with the place underlined. `gamay.shell.main.run` is what the commands call; from there
`gamay.shell.statements` splits scripts and `gamay.shell.repl` asks for statements. `gamay.shell.session` hides whether
the answers come from this process or from a cluster; notebooks use it, too.
"""
