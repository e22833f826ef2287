"""The broker: accepts SQL, prunes and routes segments, asks the servers, merges, answers.

`gamay.broker.runner.QueryRunner` takes a query from text to response; `gamay.broker.routing.RoutingTables` keeps for each
table the snapshot it routes by.
"""
