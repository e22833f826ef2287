"""What SQL has and this dialect has not: what to do instead."""

SINGLE_TABLE = "a query reads a single table, without joins, subqueries, window functions or set operations"

_LOOK_UP = (
    "look values of another table up with IN_SUBQUERY(x, 'SELECT IDSET(y) FROM t') = 1, or join the data when it is ingested"
)
_ONE_BY_ONE = "send the queries one by one and put their rows together"
_ADVICE = {
    "JOIN": _LOOK_UP,
    "SELECT": _LOOK_UP,
    "UNION": _ONE_BY_ONE,
    "INTERSECT": _ONE_BY_ONE,
    "EXCEPT": _ONE_BY_ONE,
    "MINUS": _ONE_BY_ONE,
    "WITH": "write the query without names for parts of it",
    "OVER": "compute it from the rows of a query with GROUP BY",
}
_STATEMENTS = {
    "INSERT": "load data with an ingestion job, or the controller's POST /ingestFromFile or POST /segments",
    "CREATE": "create a table with the controller's POST /schemas and POST /tables",
    "ALTER": "change a table with the controller's PUT /schemas/{name} and PUT /tables/{name}",
    "DROP": "drop a table with the controller's DELETE /tables/{name}",
    "SHOW": "see the tables with the controller's GET /tables",
    "DESCRIBE": "see the columns with the controller's GET /schemas/{name}",
    "DESC": "see the columns with the controller's GET /schemas/{name}",
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
    "TOP": "the number of rows comes at the end: LIMIT n",
    "ILIKE": "LIKE does not regard case",
    "RLIKE": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "REGEXP": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "SIMILAR": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "ROLLUP": "ROLLUP takes a list in parentheses: ROLLUP (a, b)",
    "CUBE": "CUBE takes a list in parentheses: CUBE (a, b)",
    "QUALIFY": "groups are filtered with HAVING",
    "OPTION": "options come at the end as OPTION(name=value), or first as SET name = value;",
    "OVER": "there are no window functions; compute it from the rows of a query with GROUP BY",
    "WINDOW": "there are no window functions; compute them from the rows of a query with GROUP BY",
    "TABLESAMPLE": "rows are not sampled; LIMIT n ends with the first ones",
}


def refused(word: str) -> str:
    """Return what is said about a keyword of SQL that queries of this dialect do not have."""
    return f"{word} is not supported: {SINGLE_TABLE}; {_ADVICE[word]}"


def refused_statement(word: str) -> str | None:
    """Return what is said about a statement that begins with the word; None when no such statement is known."""
    advice = _STATEMENTS.get(word)
    return None if advice is None else f"{word} is no query, and only SELECT is answered here; {advice}"
