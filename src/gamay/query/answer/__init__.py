"""The answer to a query: a columnar result table, and the JSON document that clients read."""
