"""Parts of a query besides SELECT: options, hints, row limits."""
