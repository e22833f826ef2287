"""Who may do what: principals, rights, passwords, log-ins, users in the store, and the log of changes."""
