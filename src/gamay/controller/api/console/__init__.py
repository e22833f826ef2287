"""The controller's side of the web console, besides REST: its files (`pages`), log-in (`sessions`, `login`).

Requests of browsers are answered with files, sessions and documents that only pages need. Start at `pages` for what
is served and with which headers.
"""
