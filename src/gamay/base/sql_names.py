"""Names of tables and columns as SQL has them."""


def quoted(name: str) -> str:
    """Return a name in quotes, where a bare one may be a word of SQL; a quote within is written twice."""
    return '"' + name.replace('"', '""') + '"'
