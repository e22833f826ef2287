"""The rights needed for each route of servers. The columns: `gamay.cluster.access.rights`."""

from gamay.cluster.access.rights import read_rights
from gamay.web.help_page import HELP_RIGHTS
from gamay.web.process_routes import PROCESS_RIGHTS

_SERVER = """
GET    /tables                                        GetTable              read        listed
GET    /tables/{table}/segments                       GetSegment            read        table
GET    /tables/{table}/segments/crc                   GetMetadata           read        table
GET    /tables/{table}/segments/stale                 GetMetadata           read        table
GET    /tables/{table}/segments/errors                GetDebugInfo          read        table
POST   /tables/{table}/segments/reloadProgress        GetSegmentReloadStatus read       table
GET    /tables/{table}/segments/{segment}/metadata    GetMetadata           read        table
GET    /tables/{table}/segments/metadata              GetMetadata           read        table
GET    /tables/{table}/segments/needReload            GetMetadata           read        table
GET    /tables/{table}/segments/isStale               GetMetadata           read        table
GET    /tables/{table}/allSegmentsLoaded              GetState              read        table
GET    /tables/{table}/metadata                       GetMetadata           read        table
GET    /tables/{table}/tiers                          GetMetadata           read        table
GET    /tables/{table}/indexes                        GetMetadata           read        table
GET    /tables/{table}/size                           GetSize               read        table
GET    /table/{table}/size                            GetSize               read        table
GET    /segments/{table}/{segment}                    DownloadSegment       read        table
GET    /segments/{table}/{segment}/validDocIdsBitmap  GetMetadata           read        table
POST   /tables/{table}/validDocIdsMetadata            GetMetadata           read        table
POST   /tables/{table}/readView                       DownloadSegment       read        table
POST   /segments/{table}/{segment}/upload             UploadSegment         write       table
POST   /segments/{table}/{segment}/uploadLLCSegment   UploadSegment         write       table
GET    /controllerJob/reloadStatus/{table}            GetSegmentReloadStatus read       table
GET    /tables/{table}/consumingSegmentsInfo          GetConsumingSegments  read        table
GET    /tables/{table}/realtimeStatus                 GetConsumingSegments  read        table
GET    /tables/{table}/deadLetters                    GetConsumingSegments  read        table
GET    /tables/{table}/deadLetters/replayable         ReplayDeadLetters     instance    table
POST   /tables/{table}/deadLetters/find               ReplayDeadLetters     instance    table
POST   /tables/{table}/deadLetters/replayed           ReplayDeadLetters     instance    table
GET    /debug/queries/resourceUsage                   GetQueryUsage         read        all
GET    /queries/id                                    GetRunningQuery       read        all
DELETE /query/{query_id}                              CancelQuery           operate     -
GET    /instance/pools                                GetInstance           read        -
GET    /instance/diskUtilization                      GetInstance           read        -
GET    /instance/primaryKeyCount                      GetMetadata           read        all
"""

SERVER_RIGHTS = read_rights(_SERVER, PROCESS_RIGHTS, HELP_RIGHTS)
