"""Functions of text: strings, patterns, codecs, URLs, addresses, TEXT_MATCH."""
