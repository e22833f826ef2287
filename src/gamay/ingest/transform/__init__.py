"""Conversion of a reader's batches to conformed batches: expressions, filter, nested input, maps. Start at `pipeline`."""
