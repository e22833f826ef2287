"""SQLAlchemy dialect `gamay://` over this package's DB-API, for Superset, pandas and queries written in Python.

In: a URL such as `gamay://localhost:8099` and statements of SQLAlchemy. Out: Gamay's SQL, rows with Python's values, and
tables with their columns and primary keys. Start with `gamay.client.alchemy.dialect`; statements are compiled in
`gamay.client.alchemy.compiler`, types are mapped in `gamay.client.alchemy.types`. Needs `gamay[sqlalchemy]`.
"""
