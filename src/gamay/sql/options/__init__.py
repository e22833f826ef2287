"""What a query may say beside SELECT: options, hints, limits of rows."""
