"""What a server has, and what it should have: ideal states in, current states out. Start at `instance`."""
