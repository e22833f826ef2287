"""Thresholds of grouping and aggregation, each with the measurement that chose it.

Measured on two cores of a Xeon with 48 KB L1, 2 MB L2 for each core, 20 million rows.
"""

# Four copies of the totals hide the latency of adding to one group twice in a row: 1.9 -> 0.5 ns a row where rows are sorted
# by the key, 0.7 -> 0.5 ns with four groups in random order.
# Above this many groups repeats are rare and the copies only cost cache.
LANES = 4
LANED_GROUPS_MAX = 1024

# Totals indexed by the packed key itself, without a table in between. 2 ** 20 groups of 16 bytes are
# 16 MB, beyond the cache, but a hash table of the groups that occur costs more until about one cell in ten is in use.
DIRECT_GROUPS_MAX = 1 << 20
# The same for aggregates whose state is more than a number or two for each group.
DIRECT_GROUPS_MAX_WIDE = 1 << 12
# A lookup table from packed key to group: 4 bytes a cell.
LOOKUP_CELLS_MAX = 1 << 22

# Rows of a block that is read without copying; larger than other blocks, so that Python's share (about 30 us) disappears.
ZERO_COPY_BLOCK_ROWS = 1 << 19
# The same where a filter is evaluated block by block: its mask must stay in the cache.
SCAN_BLOCK_ROWS = 1 << 18

# Groups behind the real ones, for rows that a mask drops; `mask_groups` spreads rows over so many.
SPARE_GROUPS = 8

# Tables with a cell for each pair of group and dictionary id, of 8 bytes or of 1, instead of a hash table of pairs: 4
# million rows with 3.6 million pairs take 280 ms by hash, 85 ms by 20 million flags. Memory is taken only where it is touched.
TALLY_CELLS_MAX = 1 << 22
FLAG_CELLS_MAX = 1 << 25

# Values that wait before they are sorted into digests; 16 MB with their groups.
DIGEST_BUFFER_ROWS = 1 << 20
