"""Rows by flag, by position, by range: filters, masks, gathering, sorted records, radix sort."""
