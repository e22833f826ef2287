"""The gRPC port of a server, by which Trino, Presto and Spark read segments as they read those of Pinot's servers.

In: a selection as SQL, and the names of segments of one table. Out: its rows as a stream of Pinot's DataTables, batch by
batch, so that a segment of any size is read in the memory of one. Who plans such reads asks a broker which server has which
segments (`/debug/routingTable/{table}`). Start with `gamay.server.grpc.submit`, which answers one call; the bytes are those
of `gamay.server.grpc.data_table`. Needs `gamay[grpc]`.
"""
