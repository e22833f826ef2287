"""The broker: accepts SQL, prunes and routes segments, asks the servers, merges, answers.

`gamay.broker.answer.runner.QueryRunner` takes a query from text to response; `gamay.broker.routes.routing.RoutingTables`
keeps for each table the snapshot it routes by.
"""
