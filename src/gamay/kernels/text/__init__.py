"""Texts that lie end to end: tests, words, trigrams."""
