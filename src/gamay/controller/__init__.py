"""Owns schemas, tables, segments and ideal states; the REST API."""
