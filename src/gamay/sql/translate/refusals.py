"""What SQL has and this dialect has not: what to do instead."""

_STATEMENTS = {
    "INSERT": "load data with an ingestion job, or the controller's POST /ingestFromFile or POST /segments",
    "CREATE": "create a table with the controller's POST /schemas and POST /tables",
    "ALTER": "change a table with the controller's PUT /schemas/{name} and PUT /tables/{name}",
    "DROP": "drop a table with the controller's DELETE /tables/{name}",
    "SHOW": "SHOW TABLES, SHOW COLUMNS FROM t and SHOW DATABASES are",
    "USE": "name the database with the table: database.table",
    "VALUES": "constants are selected without FROM: SELECT 1, 'a'",
    "UPDATE": "replace the segments that hold the rows",
    "DELETE": "replace or delete the segments that hold the rows",
    "MERGE": "replace the segments that hold the rows",
    "UPSERT": "rows are replaced by newer ones of the stream in a table with upsertConfig",
    "TRUNCATE": "delete the segments of a table with the controller's DELETE /segments/{table}",
}
# words of other dialects of SQL
ELSEWHERE = {
    "TOP": "the number of rows comes at the end, LIMIT n; PQL, which has TOP, goes to /query of a broker as pql",
    "ILIKE": "LIKE does not regard case",
    "RLIKE": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "REGEXP": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "SIMILAR": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "ROLLUP": "ROLLUP takes a list in parentheses: ROLLUP (a, b)",
    "CUBE": "CUBE takes a list in parentheses: CUBE (a, b)",
    "OPTION": "options come at the end as OPTION(name=value), or first as SET name = value;",
    "TABLESAMPLE": "rows are not sampled; LIMIT n ends with the first ones",
}


def refused_statement(word: str) -> str | None:
    """Return what is said about a statement that begins with the word; None when no such statement is known."""
    advice = _STATEMENTS.get(word)
    return None if advice is None else f"{word} is no query, and is not answered here; {advice}"
