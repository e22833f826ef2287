"""Routes of the broker's tables: segments, servers and replicas, as immutable snapshots. Start at `routing`."""
