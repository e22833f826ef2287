"""Groups that do not fit in a query's memory, or hardly repeat: partitioned by the hash of their keys, and spilled to disk.

Input: tables of groups (`gamay.query.groupby.table.GroupTable`) of one query, in which a group may occur any number of
times: of threads, segments or servers. Output: tables in which each group occurs once, a partition at a time, so that only
one partition has to fit in memory, or in the processor's cache.

    hashing       the partition of each group, by value: the same in all segments, processes and versions
    files         unnamed files, which are gone with the query or the process, whatever ends it, and what they may take
    dictionaries  one dictionary for each key instead of one for each segment
    groups        `PartitionedGroups`: tables in, merged partitions out
    spilling      `FoundGroups`: what is kept of segments that are done, when it is divided, and when it is spilled
"""
