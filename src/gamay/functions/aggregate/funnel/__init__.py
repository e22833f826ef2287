"""Funnels: how far keys get through ordered steps."""
