"""The keys of one partition through consuming, commits, loads and removals. Start at `partition`."""
