"""Text to lexemes and tokens, with the places that errors point at."""
