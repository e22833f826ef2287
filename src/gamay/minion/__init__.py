"""The minion role, which runs maintenance tasks."""
