"""Arrow Flight SQL at a broker: queries come as SQL over gRPC, and answers go out as Arrow batches.

Calls come from Flight SQL clients (ADBC, JDBC, ODBC); answers are streams of Arrow batches, or Flight's errors with Gamay's
messages. Queries run by the same `gamay.broker.answer.runner.QueryRunner` as those over HTTP, with the same rights, row
filters and limits. Start with `gamay.broker.flight.server`, which takes the calls, then `gamay.broker.flight.asking`, which
runs a query for one of them. Needs `gamay[flight]`.
"""
