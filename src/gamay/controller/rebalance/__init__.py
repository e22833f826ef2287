"""Rebalances: moving segments, and the brokers of tenants, to where the configs demand. Start at `rebalance`."""
