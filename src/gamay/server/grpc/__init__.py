"""The gRPC port of a server, from which Trino, Presto and Spark read segments as from Pinot's servers.

In: a selection as SQL, and the names of segments of one table. Out: its rows as a stream of Pinot's DataTables, batch by
batch, so that a segment of any size is read with the memory of one batch. Planners of such reads get the servers of
segments from
a broker (`/debug/routingTable/{table}`). Start with `gamay.server.grpc.submit`, which answers one call; the bytes are those
of `gamay.server.grpc.data_table`. Needs `gamay[grpc]`.
"""
