"""What users declare: data types, schemas, table configs, time formats, and whether they make sense together."""
