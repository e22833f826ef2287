"""REST: the state of consumption; pausing, resuming, forcing commits."""
