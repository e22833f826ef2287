"""Whether a schema or a table config makes sense: each rule yields a sentence for every breach. Start at `validation`."""
