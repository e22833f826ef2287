"""The rights that the minion's routes require. `gamay.cluster.access.rights` describes the columns."""

from gamay.cluster.access.rights import read_rights
from gamay.web.help_page import HELP_RIGHTS
from gamay.web.process_routes import PROCESS_RIGHTS

_MINION = """
GET    /tasks/subtask/progress                        GetTask               read        all
GET    /tasks/subtask/state/progress                  GetTask               read        all
GET    /tasks/subtask/progressStats                   GetTask               read        all
"""

MINION_RIGHTS = read_rights(_MINION, PROCESS_RIGHTS, HELP_RIGHTS)
