"""Queries that clients send to the controller: they go to brokers (`brokers`), and answers become files (`export`).

The requests come from `gamay.controller.api.querying.queries`; the results are the brokers' answers. Start at `brokers`.
"""
