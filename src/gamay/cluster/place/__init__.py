"""Where segments should be: instance partitions, assignment, and the steps from here to there. Pure functions."""
