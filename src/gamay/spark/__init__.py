"""The pipeline: jobs as functions of a SparkSession."""
