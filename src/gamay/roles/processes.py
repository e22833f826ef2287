"""The role of a process; the modules of other roles are not imported."""

from gamay.cluster.records.records import Role
from gamay.roles.process import RoleProcess
from gamay.roles.settings import RoleSettings


def role_process(settings: RoleSettings) -> RoleProcess:
    """Return the role of the settings, not started yet. Raises as its class does."""
    match settings.role:
        case Role.CONTROLLER:
            from gamay.roles.controller_process import ControllerProcess

            return ControllerProcess(settings)
        case Role.BROKER:
            from gamay.roles.broker_process import BrokerProcess

            return BrokerProcess(settings)
        case Role.SERVER:
            from gamay.roles.server_process import ServerProcess

            return ServerProcess(settings)
        case Role.MINION:
            from gamay.roles.minion_process import MinionProcess

            return MinionProcess(settings)
