"""REST: segments, their uploads and reloads, and the completion protocol of consuming ones."""
