"""Access control: principals, rights, passwords, log-ins, users in the store, and the audit log."""
