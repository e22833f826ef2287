"""The keys of one partition during consumption, commits, loads and removals. Start at `partition`."""
