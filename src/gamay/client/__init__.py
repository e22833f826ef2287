"""The Python client: queries and the controller's REST API; starts without the engine."""
