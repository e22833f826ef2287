"""Consuming segments on the lead controller: the completion protocol, committed segments, repair, pauses.

Start at `manager`, which wires the parts; `machine` is the state machine of one segment, a pure function of its inputs.
"""
