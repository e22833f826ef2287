"""From files to conformed batches.

A row's way: `gamay.ingest.read.sources.open_bytes` opens the file (gzip is recognised by its first bytes), a reader of
`gamay.ingest.read.readers.open_reader` cuts it into record batches of bounded size,
`gamay.ingest.transform.pipeline.Pipeline` applies the table's ingestion config and converts the values to the schema's
types, and `gamay.ingest.run.conformed_batches` ties the two together. What comes out is what a segment builder takes.
"""
