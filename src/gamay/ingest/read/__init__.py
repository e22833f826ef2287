"""Record readers: files of every format as Arrow batches. Start at `readers`."""
