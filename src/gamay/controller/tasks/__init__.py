"""The controller's side of maintenance tasks: created by generators, by schedule or on demand, and supervised."""
