"""Tables with primary keys on one server: upsert, dedup, and the classes of users that their configs name."""
