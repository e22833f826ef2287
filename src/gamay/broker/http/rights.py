"""Access rights of the broker's endpoints. The columns: `gamay.cluster.access.rights`."""

from gamay.cluster.access.rights import read_rights
from gamay.web.help_page import HELP_RIGHTS
from gamay.web.process_routes import PROCESS_RIGHTS

_QUERIES = """
GET    /query/sql                                     Query                 read        found
POST   /query/sql                                     Query                 read        found
GET    /query                                         Query                 read        found
POST   /query                                         Query                 read        found
POST   /query/sql/validateSyntax                      Query                 read        -
POST   /query/sql/queryFingerprint                    Query                 read        -
POST   /query/compare                                 Query                 read        found
POST   /query/timeseries                              NotOffered            read        -
GET    /timeseries/api/v1/query_range                 NotOffered            read        -
GET    /timeseries/api/v1/query                       GetTimeSeries         read        -
GET    /queryWorkloadConfigs                          NotOffered            read        -
DELETE /query/{query_id}                              CancelQuery           write       found
GET    /queries                                       GetRunningQuery       read        listed
GET    /debug/queries/resourceUsage                   GetQueryUsage         read        listed
GET    /queries/recent                                GetRecentQuery        read        listed
GET    /responseStore                                 GetResponse           read        listed
DELETE /responseStore                                 DeleteResponse        write       listed
GET    /responseStore/{request_id}                    GetResponse           read        found
GET    /responseStore/{request_id}/                   GetResponse           read        found
DELETE /responseStore/{request_id}                    DeleteResponse        write       found
DELETE /responseStore/{request_id}/                   DeleteResponse        write       found
GET    /responseStore/{request_id}/results            GetResponse           read        found
"""

_ROUTING = """
GET    /debug/routingTable/sql                        GetRoutingTable       read        found
GET    /debug/routingTable/{table}                    GetRoutingTable       read        table
GET    /debug/routingTableWithOptionalSegments/sql    GetRoutingTable       read        found
GET    /debug/routingTableWithOptionalSegments/{table} GetRoutingTable      read        table
PUT    /routing/{table}                               BuildRouting          operate     table
DELETE /routing/{table}                               DeleteRouting         operate     table
PUT    /routing/refresh/{table}/{segment}             RefreshRouting        operate     table
GET    /debug/timeBoundary/{table}                    GetTimeBoundary       read        table
GET    /debug/tables/queryQuota/{table}               GetTableQuota         read        table
GET    /debug/databases/queryQuota/{name}             GetDatabaseQuota      read        -
GET    /debug/applicationQuotas/{name}                GetApplicationQuota   read        -
GET    /debug/serverRoutingStats                      GetServerRoutingStats read        -
"""

BROKER_RIGHTS = read_rights(_QUERIES, _ROUTING, PROCESS_RIGHTS, HELP_RIGHTS)
QUERY_RIGHT = BROKER_RIGHTS["POST", "/query/sql"]
