"""Length-prefixed frames between brokers and servers."""
