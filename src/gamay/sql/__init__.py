"""From the text of a query to the query model: dialect, normalisation, plan templates, spans for errors."""
