"""Maintenance tasks, as the controller deals with them: made by generators, by time or on demand, and looked after."""
