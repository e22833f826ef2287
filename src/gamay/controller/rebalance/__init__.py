"""Moving segments, and brokers of tenants, to where they should be. Start at `rebalance`."""
