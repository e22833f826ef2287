"""From files and streams to conformed batches: record readers, transforms, job specs."""
