"""REST: instances, tenants, users, settings, the metadata store, and this process."""
