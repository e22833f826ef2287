"""Thresholds of grouping and aggregation, each with the measurement that chose it.

Measured on two cores of a Xeon with 48 KB L1, 2 MB L2 for each core, 20 million rows.
"""

# Four copies of the totals hide the latency of adding to one group twice in a row: 1.9 -> 0.5 ns a row where rows are sorted
# by the key, 0.7 -> 0.5 ns with four groups in random order.
# Above this many groups repeats are rare and the copies only cost cache.
LANES = 4
LANED_GROUPS_MAX = 1024

# Count and sum of a group in one cell: 0.31 ns a row, 0.52 in two; the cells are taken apart every four million rows.
PACKED_GROUPS_MAX = 1 << 16
PACKED_ROWS_PER_GROUP = 4

# Totals indexed by the packed key itself, without a table in between. At 2 ** 16 cells always quicker (1.3 ns a row, 1.9 by
# lookup, 7 by hash); at 2 ** 20 when most cells are used (6, 10 and 27 ns), slower when one in a hundred is (4.0, 2.1); at
# 2 ** 22 never (12 to 18 ns, 5 to 17 by lookup).
DIRECT_GROUPS_MAX = 1 << 20
# The same for aggregates whose state is more than a number or two for each group.
DIRECT_GROUPS_MAX_WIDE = 1 << 12
# Of so many rows of a scan one is taken to match, where that decides whether most cells will be used. A million cells for a
# million rows: 35 ms by cells and 38 by lookup where all match, 31 and 21 where half do, 25 and 8 of an eighth.
SCANS_KEEP_ONE_OF = 4
# A lookup table from packed key to group: 4 bytes a cell.
LOOKUP_CELLS_MAX = 1 << 22

# Raw whole numbers in a range of so many are ids of all of its numbers, where they are keys.
WHOLE_CODES_MAX = 1 << 20

# Rows of a block that is aggregated. Between two blocks a thread runs Python, and another that wants to do so sleeps and has
# to be woken up, which takes longer than Python does: with two threads 2 ** 18 rows took 12.5 ms for a filtered sum (7.6
# here), 22 for HyperLogLog (13), 48 for a function of times (28), 95 for CASE (48). With one thread all are alike.
AGGREGATED_BLOCK_ROWS = 1 << 20
# Rows of a frame that are decoded at once, where whole numbers are added to groups: 256 KiB. As many as a block has would go
# through memory.
FRAME_ROWS = 1 << 15
# Values of such a block, where columns are copied, or computed: 8 bytes each, in every thread.
AGGREGATED_BLOCK_VALUES = 1 << 22
# So many bytes of what a query may hold make room for a row of a block: what a block needs for a moment is not counted.
BUDGET_PER_BLOCK_ROW = 1 << 11
# Bytes of the texts of a block where they have no dictionary and are decompressed for it: they are to stay near. In rows,
# from which and up to which: JSON documents of 190 bytes by a path take 182 ms in blocks of 2 ** 14, 159 in 2 ** 16, texts
# of 50 bytes by a pattern 61 and 39; in blocks of 2 ** 18 they took more than twice as long as in 2 ** 14.
RAW_TEXT_BLOCK_BYTES = 1 << 23
RAW_TEXT_BLOCK_ROWS_MIN = 1 << 12
RAW_TEXT_BLOCK_ROWS_MAX = 1 << 16

# A query over several segments begins in the caller's thread: a point look-up in four segments takes 0.6 ms there and 1.1 ms
# by two threads.
SMALL_WORK_S = 0.0005

# So many rows that indexes find are read by one thread in one pass where their keys and arguments are plain columns: 33,000
# of them take 0.3 ms, about as long as it takes to have another thread wake up and to merge what both found.
FEW_ROWS_MAX = 1 << 16
# As long as there are no more combinations of their keys, a table of all of them numbers groups; 4,096 take 4 µs to look at.
FEW_CELLS_MAX = 1 << 12
# Few rows of several segments, which indexes find, are put together and treated as one block: ten segments with one or two
# rows each take 0.48 ms so, 1.3 ms one by one. Up to so many rows, and looking for them in one thread in so many segments.
GATHERED_ROWS_MAX = 1 << 13
GATHERED_SEGMENTS_MAX = 64

# A mask that keeps fewer than one row in so many becomes a list: two filtered sums take 0.75 ns a row of the range either
# way at 2 %, 1.1 by list and 0.8 by flags at 4 %, 1.4 and 1.0 at 10 %; spare groups cost the same whatever the share.
SPARSE_MASK = 40

# Values of a dictionary of more entries are looked up far away, 5 ns each instead of 0.3: of rows that a mask drops, too, so
# that these are cut out, at 0.4 ns a row and column, unless they are few.
CACHED_ENTRIES_MAX = 1 << 15

# Groups behind the real ones, for rows that a mask drops; `mask_groups` spreads rows over so many.
SPARE_GROUPS = 8

# Tables with a cell of 8 bytes for each pair of group and dictionary id, instead of a hash table of pairs.
TALLY_CELLS_MAX = 1 << 22
# Sets of pairs as bits, one for each that there may be: 64 MB, and so many for each pair that there is or comes. Adding a
# pair takes 2 to 4 ns, 60 in a hash table; looking through the bits at the end takes 0.01 ns each.
PAIR_BITS_MAX = 1 << 29
PAIR_BITS_PER_PAIR = 1 << 13
# From so many pairs on they are sorted: a table of them is in no near cache, and an entry costs 60 ns, sorting it 25.
SORTED_PAIRS_MIN = 1 << 19
# Up to so many bits, rows are marked in bytes first, see `gamay.kernels.group.pairs.mark_cells`.
PAIR_CELLS_MAX = 1 << 16
# Cells of a tally for each row of a block, up to which counting ids beats sorting values: 20 million rows of 9,000 values in
# 200 groups take 0.80 s sorted and 0.36 counted.
TALLY_CELLS_PER_ROW = 8

# Values that wait before they are sorted into digests; 16 MB with their groups.
DIGEST_BUFFER_ROWS = 1 << 20
DIGEST_BUFFER_ROWS_PER_GROUP = 64

# Values of a group from which NumPy's sort, called for each group, beats one compiled loop: a million values in 100,000
# groups take 33 ms and 11, in 20,000 groups 8 and 27.
SORTED_RUN_MIN = 24

# Rows for each combination of the entries of several dictionaries, from which a function is computed for the combinations.
COMBINATION_ROWS = 16
# Rows for each text that a function has made, from which the texts are put in a dictionary, which has to be sorted.
ENCODED_RESULT_ROWS = 16
