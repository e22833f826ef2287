"""Loading of segments: fetching, verifying, opening and swapping.

Start at `loader`.
"""
