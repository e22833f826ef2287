"""The rights that the controller's routes require. `gamay.cluster.access.rights` describes the columns."""

from gamay.cluster.access.rights import read_rights

_SCHEMAS = """
GET    /schemas                                            GetSchema                read        listed
POST   /schemas                                            CreateSchema             operate     body.schemaName
GET    /schemas/info                                       GetSchema                read        listed
GET    /schemas/fieldSpec                                  GetSchema                read        -
POST   /schemas/validate                                   ValidateSchema           read        body.schemaName
GET    /schemas/{name}                                     GetSchema                read        name
PUT    /schemas/{name}                                     UpdateSchema             operate     name,body.schemaName
DELETE /schemas/{name}                                     DeleteSchema             operate     name
GET    /tables/{table}/schema                              GetSchema                read        table
"""

_DOCUMENT = "body.tableName,body.schema.schemaName,body.offline.tableName,body.realtime.tableName"

_TABLES = f"""
GET    /tables                                             GetTable                 read        listed
POST   /tables                                             CreateTable              operate     body.tableName
GET    /tables/livebrokers                                 GetBroker                read        listed
POST   /tables/validate                                    ValidateTableConfigs     read        body.tableName
GET    /tables/{{table}}                                   GetTableConfig           read        table
PUT    /tables/{{table}}                                   UpdateTableConfig        operate     table,body.tableName
DELETE /tables/{{table}}                                   DeleteTable              operate     table
PUT    /tables/{{table}}/state                             EnableTable              operate     table
GET    /tables/{{table}}/state                             GetState                 read        table
GET    /tableConfigs                                       GetTableConfigs          read        listed
POST   /tableConfigs                                       CreateTable              operate     {_DOCUMENT}
POST   /tableConfigs/validate                              ValidateTableConfigs     read        {_DOCUMENT}
POST   /tableConfigs/tune                                  ValidateTableConfigs     read        {_DOCUMENT}
GET    /tableConfigs/{{name}}                              GetTableConfigs          read        name
PUT    /tableConfigs/{{name}}                              UpdateTableConfigs       operate     name,{_DOCUMENT}
DELETE /tableConfigs/{{name}}                              DeleteTable              operate     name
"""

_VIEWS = """
GET    /tables/{table}/idealstate                          GetIdealState            read        table
GET    /tables/{table}/externalview                        GetExternalView          read        table
GET    /tables/{table}/segmentsStatus                      GetState                 read        table
GET    /tables/{table}/size                                GetSize                  read        table
GET    /tables/{table}/stats                               GetMetadata              read        table
GET    /tables/{table}/status                              GetState                 read        table
GET    /tables/{table}/instances                           GetInstance              read        table
GET    /tables/{table}/readSnapshot                        DownloadSegment          read        table
POST   /tables/{table}/timeBoundary                        UpdateTimeBoundary       operate     table
DELETE /tables/{table}/timeBoundary                        DeleteTimeBoundary       operate     table
GET    /tables/{table}/indexes                             GetMetadata              read        table
GET    /tables/{table}/metadata                            GetMetadata              read        table
GET    /tables/{table}/aggregateMetadata                   GetMetadata              read        table
GET    /tables/{table}/validDocIdsMetadata                 GetMetadata              read        table
GET    /debug/segments/{table}/{segment}                   GetDebugInfo             read        table
GET    /debug/tables/{table}                               GetDebugInfo             read        table
GET    /table/{table}/jobs                                 GetControllerJobs        read        table
"""

_CONSUMPTION = """
GET    /tables/{table}/consumingSegmentsInfo               GetConsumingSegments     read        table
GET    /tables/{table}/realtimeStatus                      GetConsumingSegments     read        table
GET    /tables/{table}/deadLetters                         GetConsumingSegments     read        table
POST   /tables/{table}/deadLetters/replay                  ReplayDeadLetters        operate     table
GET    /tables/{table}/badLLCSegmentsPerPartition          GetConsumingSegments     read        table
GET    /tables/{table}/consumerWatermarks                  GetConsumingSegments     read        table
GET    /tables/{table}/pauselessDebugInfo                  GetDebugInfo             read        table
GET    /tables/{table}/lostOffsets                         GetConsumingSegments     read        table
POST   /tables/{table}/pauseConsumption                    PauseConsumption         operate     table
POST   /tables/{table}/resumeConsumption                   ResumeConsumption        operate     table
POST   /tables/{table}/pauseTopicConsumption               PauseConsumption         operate     table
POST   /tables/{table}/resumeTopicConsumption              ResumeConsumption        operate     table
GET    /tables/{table}/pauseStatus                         GetPauseStatus           read        table
POST   /tables/{table}/forceCommit                         ForceCommit              operate     table
GET    /tables/forceCommitStatus/{job_id}                  GetForceCommitStatus     read        found
DELETE /deleteSegmentsFromSequenceNum/{table}              DeleteSegment            operate     table
POST   /segments/{table}/uploadFromServerToDeepstore       UploadSegment            operate     table
"""

_COMPLETION = """
GET    /segmentConsumed                                    CommitSegment            instance    -
GET    /segmentStoppedConsuming                            CommitSegment            instance    -
GET    /extendBuildTime                                    CommitSegment            instance    -
GET    /segmentCommitStart                                 CommitSegment            instance    -
POST   /segmentUpload                                      CommitSegment            instance    -
POST   /segmentCommitEnd                                   CommitSegment            instance    -
POST   /segmentCommitEndWithMetadata                       CommitSegment            instance    -
POST   /segmentCommit                                      CommitSegment            instance    -
GET    /segmentBuildDeterministicFailure                   CommitSegment            instance    -
"""

_SEGMENTS = """
POST   /v2/segments                                        UploadSegment            write       found
POST   /segments                                           UploadSegment            write       found
POST   /segments/batchUpload                               UploadSegment            write       table_name
POST   /ingestFromFile                                     IngestFile               write       table
POST   /ingestFromURI                                      IngestFile               write       table
POST   /inspectFile                                        InspectFile              operate     table
POST   /inspectURI                                         InspectFile              operate     table
POST   /inspectTopic                                       InspectTopic             operate     table
GET    /segments/{table}                                   GetSegment               read        table
GET    /segments/{table}/select                            GetSegment               read        table
GET    /segments/{table}/{segment}                         DownloadSegment          read        table
GET    /segments/{table}/servers                           GetServerMap             read        table
GET    /segments/{table}/lineage                           GetSegmentLineage        read        table
GET    /segments/{table}/crc                               GetMetadata              read        table
GET    /segments/{table}/zkmetadata                        GetMetadata              read        table
GET    /segments/{table}/metadata                          GetMetadata              read        table
GET    /segments/{table}/{segment}/metadata                GetMetadata              read        table
GET    /segments/{table}/needReload                        GetMetadata              read        table
GET    /segments/{table}/isStale                           GetMetadata              read        table
GET    /segments/{table}/tiers                             GetStorageTier           read        table
GET    /segments/{table}/{segment}/tiers                   GetStorageTier           read        table
GET    /segments/{table}/invalidPartitionMetadata          GetMetadata              read        table
GET    /segments/segmentReloadStatus/{job_id}              GetSegmentReloadStatus   read        found
DELETE /segments/{table}                                   DeleteSegment            write       table
DELETE /segments/{table}/choose                            DeleteSegment            write       table
DELETE /segments/{table}/{segment}                         DeleteSegment            write       table
POST   /segments/{table}/delete                            DeleteSegment            write       table
POST   /segments/{table}/startReplaceSegments              ReplaceSegment           write       table
POST   /segments/{table}/endReplaceSegments                ReplaceSegment           write       table
POST   /segments/{table}/endReplaceSegmentsTogether        ReplaceSegment           write       table
POST   /segments/{table}/revertReplaceSegments             ReplaceSegment           write       table
POST   /segments/{table}/updateZKTimeInterval              UpdateTimeInterval       operate     table
POST   /segments/{table}/reload                            ReloadSegment            operate     table
POST   /segments/{table}/{segment}/reload                  ReloadSegment            operate     table
POST   /segments/{table}/reset                             ResetSegment             operate     table
POST   /segments/{table}/{segment}/reset                   ResetSegment             operate     table
"""

_PLACEMENT = """
POST   /tables/{table}/rebalance                           RebalanceTable           operate     table
DELETE /tables/{table}/rebalance                           CancelRebalance          operate     table
GET    /rebalanceStatus/{job_id}                           GetRebalanceStatus       read        found
GET    /tables/{table}/instancePartitions                  GetInstancePartitions    read        table
PUT    /tables/{table}/instancePartitions                  UpdateInstancePartitions operate     table
DELETE /tables/{table}/instancePartitions                  DeleteInstancePartitions operate     table
POST   /tables/{table}/assignInstances                     CreateInstancePartitions operate     table
POST   /tables/{table}/replaceInstance                     UpdateInstancePartitions operate     table
POST   /tables/{table}/rebuildBrokerResourceFromHelixTags  RebuildBrokerResource    operate     table
"""

_TENANTS = """
GET    /tenants                                            GetTenant                read        -
POST   /tenants                                            CreateTenant             operate     -
PUT    /tenants                                            UpdateTenant             operate     -
GET    /tenants/{name}                                     GetTenant                read        -
POST   /tenants/{name}                                     UpdateTenantMetadata     operate     -
DELETE /tenants/{name}                                     DeleteTenant             operate     -
GET    /tenants/{name}/metadata                            GetTenant                read        -
POST   /tenants/{name}/metadata                            UpdateTenantMetadata     operate     -
GET    /tenants/{name}/tables                              GetTenant                read        listed
GET    /tenants/{name}/instancePartitions                  GetInstancePartitions    read        -
PUT    /tenants/{name}/instancePartitions                  UpdateInstancePartitions operate     -
POST   /tenants/{name}/rebalance                           RebalanceTenantTables    operate     -
GET    /tenants/{name}/rebalanceJobs                       GetRebalanceStatus       read        all
GET    /tenants/rebalanceStatus/{job_id}                   GetRebalanceStatus       read        all
DELETE /tenants/rebalance/{job_id}                         CancelRebalance          operate     -
"""

_INSTANCES = """
GET    /instances                                          GetInstance              read        -
POST   /instances                                          CreateInstance           operate     -
GET    /liveinstances                                      GetInstance              read        -
GET    /minions/status                                     GetInstance              read        -
GET    /instances/{name}                                   GetInstance              read        -
PUT    /instances/{name}                                   UpdateInstance           operate     -
DELETE /instances/{name}                                   DeleteInstance           operate     -
PUT    /instances/{name}/state                             UpdateInstance           operate     -
POST   /instances/{name}/state                             UpdateInstance           operate     -
PUT    /instances/{name}/updateTags                        UpdateInstance           operate     -
POST   /instances/{name}/updateBrokerResource              UpdateBrokerResource     operate     -
GET    /instances/dropInstance/validate                    GetInstance              read        all
POST   /instances/updateTags/validate                      GetInstance              read        all
POST   /brokers/instances/{name}/qps                       UpdateQPS                operate     -
GET    /brokers                                            GetBroker                read        listed
GET    /brokers/tenants                                    GetBroker                read        -
GET    /brokers/tenants/{name}                             GetBroker                read        -
GET    /brokers/tables                                     GetBroker                read        listed
GET    /brokers/tables/{name}                              GetBroker                read        name
GET    /v2/brokers                                         GetBroker                read        listed
GET    /v2/brokers/tenants                                 GetBroker                read        -
GET    /v2/brokers/tenants/{name}                          GetBroker                read        -
GET    /v2/brokers/tables                                  GetBroker                read        listed
GET    /v2/brokers/tables/{name}                           GetBroker                read        name
"""

_TASKS = """
POST   /tasks/schedule                                     CreateTask               operate     table
POST   /tasks/execute                                      ExecuteTask              operate     body.tableName
DELETE /tasks/lock/forceRelease                            UpdateTaskQueue          operate     table
DELETE /tasks/task/{name}                                  DeleteTask               operate     found
GET    /tasks/{task_type}/{table}/metadata                 GetTask                  read        table
DELETE /tasks/{task_type}/{table}/metadata                 UpdateTaskQueue          operate     table
PUT    /tasks/{task_type}/cleanup                          CleanupTask              operate     -
PUT    /tasks/{task_type}/stop                             StopTask                 operate     -
PUT    /tasks/{task_type}/resume                           ResumeTask               operate     -
DELETE /tasks/{task_type}                                  DeleteTask               operate     -
GET    /tasks/tasktypes                                    GetTask                  read        -
GET    /tasks/summary                                      GetTask                  read        -
GET    /tasks/scheduler/information                        GetSchedulerInfo         read        all
GET    /tasks/scheduler/jobKeys                            GetSchedulerInfo         read        listed
GET    /tasks/scheduler/jobDetails                         GetSchedulerInfo         read        table
GET    /tasks/generator/{table}/{task_type}/debug          DebugTask                read        table
GET    /tasks/task/{name}/state                            GetTask                  read        found
GET    /tasks/task/{name}/config                           GetTask                  read        found
GET    /tasks/task/{name}/runtime/config                   GetTask                  read        found
GET    /tasks/task/{name}/debug                            DebugTask                read        found
GET    /tasks/subtask/workers/progress                     GetTask                  read        all
GET    /tasks/subtask/{name}/state                         GetTask                  read        found
GET    /tasks/subtask/{name}/config                        GetTask                  read        found
GET    /tasks/subtask/{name}/progress                      GetTask                  read        found
GET    /tasks/{task_type}/state                            GetTask                  read        -
GET    /tasks/{task_type}/tasks                            GetTask                  read        all
GET    /tasks/{task_type}/tasks/count                      GetTask                  read        all
GET    /tasks/{task_type}/taskstates                       GetTask                  read        all
GET    /tasks/{task_type}/taskcounts                       GetTask                  read        table
GET    /tasks/{task_type}/debug                            DebugTask                read        all
GET    /tasks/{task_type}/{table}/state                    GetTask                  read        table
GET    /tasks/{task_type}/{table}/debug                    DebugTask                read        table
GET    /periodictask/names                                 GetTask                  read        -
GET    /periodictask/run                                   RunPeriodicTask          operate     table
POST   /periodictask/run                                   RunPeriodicTask          operate     table
"""

_CLUSTER = """
GET    /version                                            GetVersion               read        -
GET    /jsonSchemas                                        GetVersion               read        -
GET    /jsonSchemas/{name}                                 GetVersion               read        -
GET    /cluster/info                                       GetClusterConfig         read        -
GET    /cluster/status                                     GetClusterConfig         read        all
GET    /cluster/damage                                     GetZnode                 administer  -
POST   /cluster/damage                                     UpdateZnode              administer  -
GET    /cluster/configs                                    GetClusterConfig         read        -
POST   /cluster/configs                                    UpdateClusterConfig      administer  -
DELETE /cluster/configs/{name}                             DeleteClusterConfig      administer  -
GET    /leader/tables                                      GetTableLeader           read        listed
GET    /leader/tables/{table}                              GetTableLeader           read        table
GET    /databases                                          GetDatabase              read        listed
DELETE /databases/{name}                                   DeleteTable              operate     found
GET    /databases/{name}/quotas                            GetDatabaseQuota         read        -
POST   /databases/{name}/quotas                            UpdateDatabaseQuota      administer  -
GET    /applicationQuotas                                  GetApplicationQuota      read        -
GET    /applicationQuotas/{name}                           GetApplicationQuota      read        -
POST   /applicationQuotas/{name}                           UpdateApplicationQuota   administer  -
GET    /users                                              GetUser                  administer  -
POST   /users                                              CreateUser               administer  -
GET    /users/{name}                                       GetUser                  administer  -
PUT    /users/{name}                                       UpdateUser               administer  -
DELETE /users/{name}                                       DeleteUser               administer  -
GET    /zk/get                                             GetZnode                 read        found
GET    /zk/ls                                              GetZnode                 read        found
GET    /zk/lsl                                             GetZnode                 read        found
GET    /zk/stat                                            GetZnode                 read        found
GET    /zk/getChildren                                     GetZnode                 read        found
PUT    /zk/put                                             UpdateZnode              administer  -
PUT    /zk/putChildren                                     UpdateZnode              administer  -
POST   /zk/create                                          UpdateZnode              administer  -
DELETE /zk/delete                                          DeleteZnode              administer  -
"""

_PROCESS = """
GET    /health                                             GetHealth                open        -
GET    /health/readiness                                   GetHealth                open        -
GET    /health/liveness                                    GetHealth                open        -
GET    /pinot-controller/admin                             GetAdminInfo             open        -
GET    /auth/info                                          GetAuth                  open        -
GET    /auth/verify                                        GetAuth                  open        -
GET    /auth/verify/v2                                     GetAuth                  open        -
GET    /api                                                GetHelp                  open        -
GET    /uptime                                             GetAdminInfo             read        -
GET    /start-time                                         GetAdminInfo             read        -
GET    /invalidconfigs                                     GetAppConfig             read        -
GET    /appconfigs                                         GetAppConfig             read        -
GET    /metrics                                            GetMetrics               read        all
GET    /metrics/history                                    GetMetrics               read        all
GET    /metrics/history/{name}                             GetMetrics               read        all
GET    /loggers                                            GetLogger                read        -
GET    /loggers/recent                                     GetLogFile               administer  -
GET    /loggers/files                                      GetLogFile               read        -
GET    /loggers/download                                   GetLogFile               administer  -
GET    /loggers/instances                                  GetLogFile               read        -
GET    /loggers/instances/{name}                           GetLogFile               read        -
GET    /loggers/instances/{name}/download                  GetLogFile               administer  -
GET    /loggers/instances/{name}/recent                    GetLogFile               administer  -
GET    /loggers/{name}                                     GetLogger                read        -
PUT    /loggers/{name}                                     UpdateLogger             administer  -
"""

_CONSOLE = """
GET    /                                                   GetConsole               open        -
GET    /index.html                                         GetConsole               open        -
GET    /query                                              GetConsole               open        -
GET    /console                                            GetConsole               open        -
GET    /console/assets/{name}                              GetConsole               open        -
GET    /auth/session                                       GetAuth                  open        -
POST   /auth/login                                         GetAuth                  open        -
POST   /auth/logout                                        GetAuth                  open        -
GET    /console/catalog                                    GetSchema                read        listed
"""

_QUERIES = """
POST   /sql                                                Query                    read        found
GET    /sql                                                Query                    read        found
GET    /queries                                            GetRunningQuery          read        listed
GET    /queries/recent                                     GetRecentQuery           read        listed
DELETE /query/{broker}/{query_id}                          CancelQuery              write       found
DELETE /clientQuery/{broker}/{query_id}                    CancelQuery              write       found
DELETE /clientQuery/{query_id}                             CancelQuery              write       found
POST   /sql/export                                         Query                    read        found
GET    /responseStore/{broker}/{request_id}/results        GetResponse              read        found
DELETE /responseStore/{broker}/{request_id}                DeleteResponse           write       found
POST   /query/tableNames                                   Query                    read        -
POST   /upsert/estimateHeapUsage                           EstimateUpsertMemory     read        body.schema.schemaName,body.tableConfig.tableName
"""  # noqa: E501

# what Pinot has and Gamay has not: refused, or empty
_NOT_OFFERED = """
GET    /timeseries/languages                               NotOffered               read        -
GET    /logicalTables                                      NotOffered               read        -
POST   /logicalTables                                      NotOffered               read        -
GET    /logicalTables/{name}                               NotOffered               read        -
PUT    /logicalTables/{name}                               NotOffered               read        -
DELETE /logicalTables/{name}                               NotOffered               read        -
GET    /materializedViews                                  NotOffered               read        -
GET    /materializedViews/{name}                           NotOffered               read        -
DELETE /materializedViews/{name}                           NotOffered               read        -
POST   /query/timeseries                                   NotOffered               read        -
GET    /timeseries/api/v1/query_range                      NotOffered               read        -
GET    /queryWorkloadConfigs                               NotOffered               read        -
POST   /queryWorkloadConfigs                               NotOffered               read        -
GET    /queryWorkloadConfigs/{name}                        NotOffered               read        -
DELETE /queryWorkloadConfigs/{name}                        NotOffered               read        -
GET    /queryWorkloadConfigs/instance/{name}               NotOffered               read        -
POST   /queryWorkloadConfigs/{name}/refresh                NotOffered               read        -
POST   /validateMultiStageQuery                            Query                    read        -
PUT    /tables/recommender                                 Query                    read        -
POST   /segments/reingested                               NotOffered               read        -
GET    /cluster/configs/groovy/staticAnalyzerConfig        NotOffered               read        -
POST   /cluster/configs/groovy/staticAnalyzerConfig        NotOffered               read        -
GET    /cluster/configs/groovy/staticAnalyzerConfig/default NotOffered              read        -
POST   /sql/ddl                                            NotOffered               read        -
POST   /tables/{table}/copy                                NotOffered               read        -
POST   /dataresources                                      NotOffered               read        -
PUT    /dataresources                                      NotOffered               read        -
"""

CONTROLLER_RIGHTS = read_rights(
    _SCHEMAS, _TABLES, _VIEWS, _CONSUMPTION, _COMPLETION, _SEGMENTS, _PLACEMENT, _TENANTS, _INSTANCES, _TASKS, _CLUSTER,
    _PROCESS, _CONSOLE, _QUERIES, _NOT_OFFERED,
)  # fmt: skip
