"""Functions that read another table, or the query itself: lookUp, joined small tables, reqId."""
