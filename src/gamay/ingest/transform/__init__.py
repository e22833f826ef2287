"""From the batches of a reader to conformed batches: expressions, filters, nested input, maps. Start at `pipeline`."""
