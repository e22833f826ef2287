"""What everything else stands on: errors, clock, randomness, ids. Standard library only."""
