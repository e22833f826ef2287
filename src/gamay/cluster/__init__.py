"""The metadata store, its records, and the rules of the cluster's state."""
