"""The controller's side of stream ingestion: consuming segments, their completion, and the repair of interrupted
steps."""
