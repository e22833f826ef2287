"""The web console's built files."""
