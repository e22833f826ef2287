"""What a query may use: memory, time, a place in the queue. Start at `budget`."""
