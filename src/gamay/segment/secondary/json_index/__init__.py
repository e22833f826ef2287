"""The JSON index: from paths and values to docs."""
