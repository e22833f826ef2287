"""The metadata store: a small tree of versioned values, in SQLite or in ZooKeeper, and which controller leads.

Start at `store`.
"""
