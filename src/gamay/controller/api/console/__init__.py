"""What the controller offers to the web console beside REST: its files (`pages`), log-in (`sessions`, `login`).

In come requests of browsers, out go files, sessions, and answers that only pages need. Start at `pages` for what is served
and with which headers.
"""
