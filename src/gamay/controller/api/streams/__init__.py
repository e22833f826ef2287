"""REST: how consumption goes; pausing, resuming, forcing commits."""
