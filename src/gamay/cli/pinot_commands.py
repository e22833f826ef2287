"""Hints for users who type a command of `pinot-admin`: its replacement in Gamay."""

from typing import Any

from typer.core import TyperGroup

COMMANDS = {
    "AddSchema": "POST /schemas",
    "AddTable": "gamay admin add-table",
    "AddTenant": "POST /tenants",
    "AvroSchemaToPinotSchema": "POST /inspectFile",
    "ChangeTableState": "PUT /tables/{table}/state",
    "CreateSegment": "gamay ingest",
    "DeleteSchema": "DELETE /schemas/{name}",
    "DeleteTable": "gamay admin delete-table",
    "ImportData": "gamay ingest",
    "JsonToPinotSchema": "POST /inspectFile",
    "LaunchDataIngestionJob": "gamay ingest",
    "LaunchSparkDataIngestionJob": "gamay ingest",
    "PostQuery": "gamay query",
    "QuickStart": "gamay quickstart",
    "RealtimeProvisioningHelper": "gamay admin realtime-provisioning",
    "RebalanceTable": "POST /tables/{table}/rebalance",
    "ShowClusterInfo": "gamay admin cluster status",
    "StartBroker": "gamay start broker",
    "StartController": "gamay start controller",
    "StartMinion": "gamay start minion",
    "StartServer": "gamay start server",
    "StartServiceManager": "gamay start all",
    "UpdateSchema": "PUT /schemas/{name}",
    "UpdateTable": "gamay admin update-table",
    "UploadSegment": "gamay admin upload-segment",
}
"""The replacement of each command: a command of Gamay, or a request to the controller."""


class PinotAware(TyperGroup):
    """A group of commands that recognises those of Pinot, and names their replacements."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name; raises UsageError if there is none."""
        if (instead := COMMANDS.get(args[0])) is not None:
            kind = "write" if instead.startswith("gamay ") else "send the controller"
            ctx.fail(f"'{args[0]}' is a command of Pinot; {kind} `{instead}` instead")
        return super().resolve_command(ctx, args)
