"""REST: tables, schemas, databases, and the state of a table as a whole."""
