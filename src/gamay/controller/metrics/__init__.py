"""What a controller measures."""
