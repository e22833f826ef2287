"""Bringing what is loaded in line with the ideal states: fetching, checking, opening, swapping, reporting.

Start at `instance`.
"""
