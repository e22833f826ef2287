"""Registers, digests and bitmaps of sketches."""
