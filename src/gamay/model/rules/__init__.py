"""Validation of schemas and table configs: each rule yields a sentence for every violation. Start at `validation`."""
