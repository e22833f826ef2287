"""The metadata store: a small tree of versioned values, in SQLite or in ZooKeeper, and the election of the lead
controller.

Start at `store`.
"""
