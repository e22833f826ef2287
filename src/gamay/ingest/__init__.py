"""Conversion of files to batches in a schema's types.

`gamay.ingest.read.sources.open_bytes` opens the file (gzip is recognised by its first bytes), a reader of
`gamay.ingest.read.readers.open_reader` splits it into record batches of bounded size,
`gamay.ingest.transform.pipeline.Pipeline` applies the table's ingestion config and converts the values to the schema's
types, and `gamay.ingest.run.conformed_batches` combines the two. The result is the input of a segment builder.
"""
