"""Groups: numbers for keys, totals, moments, least rows, sets of pairs, programs of arithmetic, funnels."""
