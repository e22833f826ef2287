"""Hashes, digests, and functions of serialised sketches and sets."""
