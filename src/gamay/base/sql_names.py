"""Quoting of table and column names in SQL."""


def quoted(name: str) -> str:
    """Return a name in double quotes, since a bare one may be an SQL keyword; quotes within are doubled."""
    return '"' + name.replace('"', '""') + '"'
