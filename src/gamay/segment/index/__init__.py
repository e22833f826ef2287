"""Indexes: one module each, with the sections Config, Build, Read, Describe in this order."""
