"""Small queries of a known shape: literals go into a filter bound before, the few rows straight into an answer.

Start at `lookup`.
"""
