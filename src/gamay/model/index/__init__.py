"""The declared encodings and indexes of columns."""
