"""The criteria by which every answer is judged."""

LATE_S = 20.0
"""Twice the deadline that queries have by default."""

FORGIVEN = (501, 503, 505)
"""Not offered, busy, another version of HTTP: nothing broke."""

DEFECTS = ("defect of Gamay", "Traceback")
"""What an answer never says."""
