"""What a server measures."""
