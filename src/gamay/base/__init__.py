"""The foundations of all other packages: errors, clock, randomness, ids. Standard library only."""
