"""Queries that clients send to the controller: brokers are asked (`brokers`), and answers become files (`export`).

In come the requests of `gamay.controller.api.querying.queries`, out go what brokers answered. Start at `brokers`.
"""
