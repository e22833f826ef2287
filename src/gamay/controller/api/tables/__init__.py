"""REST: tables, schemas, databases, and what is told of a table as a whole."""
