"""Tables with primary keys on one server: upsert, dedup, and the users' classes in their configs."""
