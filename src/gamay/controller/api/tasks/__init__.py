"""REST: maintenance tasks."""
