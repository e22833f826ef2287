"""Scattering queries to servers: connections, failure detection, choice of replicas, and failover."""
