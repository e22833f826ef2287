"""A local SparkSession, its Java process, and the daemon of its workers."""
