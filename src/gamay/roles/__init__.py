"""The roles of a cluster: their wiring, start, membership and shutdown, each as its own process."""
