"""Who may ask minions for what. The columns: `gamay.cluster.rights`."""

from gamay.cluster.help_page import HELP_RIGHTS
from gamay.cluster.process_routes import PROCESS_RIGHTS
from gamay.cluster.rights import read_rights

_MINION = """
GET    /tasks/subtask/progress                        GetTask               read        all
GET    /tasks/subtask/state/progress                  GetTask               read        all
GET    /tasks/subtask/progressStats                   GetTask               read        all
"""

MINION_RIGHTS = read_rights(_MINION, PROCESS_RIGHTS, HELP_RIGHTS)
