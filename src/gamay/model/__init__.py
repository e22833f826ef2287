"""What users declare: data types, schemas, table configs, time formats, and their validation."""
