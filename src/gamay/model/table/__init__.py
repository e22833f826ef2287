"""The declarations about one table beyond its columns. Start at `table_config`."""
