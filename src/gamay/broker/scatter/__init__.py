"""Asking servers: connections, which of them fail, which replica is best, and another one in place of one that fails."""
