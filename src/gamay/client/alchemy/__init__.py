"""SQLAlchemy's dialect `gamay://`, over this package's DB-API: for Superset, pandas and whoever writes queries in Python.

In: a URL such as `gamay://localhost:8099` and statements of SQLAlchemy. Out: Gamay's SQL, rows with Python's values, and
tables with their columns and primary keys. Start with `gamay.client.alchemy.dialect`; how statements are written is in
`gamay.client.alchemy.compiler`, which type is which in `gamay.client.alchemy.types`. Needs `gamay[sqlalchemy]`.
"""
