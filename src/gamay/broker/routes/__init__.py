"""What the broker knows of each table: its segments, servers and replicas, as immutable snapshots. Start at `routing`."""
