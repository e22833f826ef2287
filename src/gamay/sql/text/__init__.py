"""Lexemes and tokens of a text, with positions for errors."""
