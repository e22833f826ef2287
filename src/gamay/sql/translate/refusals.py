"""Advice for SQL that this dialect does not support."""

_STATEMENTS = {
    "INSERT": "load data with an ingestion job, or the controller's POST /ingestFromFile or POST /segments",
    "CREATE": "create a table with the controller's POST /schemas and POST /tables",
    "ALTER": "change a table with the controller's PUT /schemas/{name} and PUT /tables/{name}",
    "DROP": "drop a table with the controller's DELETE /tables/{name}",
    "SHOW": "SHOW TABLES, SHOW COLUMNS FROM t and SHOW DATABASES are supported",
    "USE": "name the database with the table: database.table",
    "VALUES": "select constants without FROM: SELECT 1, 'a'",
    "UPDATE": "replace the segments that hold the rows",
    "DELETE": "replace or delete the segments that hold the rows",
    "MERGE": "replace the segments that hold the rows",
    "UPSERT": "rows are replaced by newer ones of the stream in a table with upsertConfig",
    "TRUNCATE": "delete the segments of a table with the controller's DELETE /segments/{table}",
}


def refused_statement(word: str) -> str | None:
    """Return the message for an unsupported statement that begins with the word; None if no such statement is known."""
    advice = _STATEMENTS.get(word)
    return None if advice is None else f"{word} is not a supported query; {advice}"
