"""The controller's REST interface; `gamay.controller.api.app.create_app` puts it together."""
