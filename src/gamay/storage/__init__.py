"""File systems, archives, checksums, aligned buffers, byte codecs."""
