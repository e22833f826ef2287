"""Tables as DataFrames: a snapshot on the driver, scans on executors, filter pushdown."""
