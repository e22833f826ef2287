"""Paths of the cluster's records in the metadata store, in the layout of Helix and Pinot, so that their tools work."""

CLUSTER_NAME = "PinotCluster"
BROKER_RESOURCE = "brokerResource"

_ROOT = f"/{CLUSTER_NAME}"
CLUSTER_CONFIG = f"{_ROOT}/CONFIGS/CLUSTER/{CLUSTER_NAME}"
PARTICIPANT_CONFIGS = f"{_ROOT}/CONFIGS/PARTICIPANT"
IDEAL_STATES = f"{_ROOT}/IDEALSTATES"
EXTERNAL_VIEWS = f"{_ROOT}/EXTERNALVIEW"
LIVE_INSTANCES = f"{_ROOT}/LIVEINSTANCES"
INSTANCES = f"{_ROOT}/INSTANCES"
LEADER = f"{_ROOT}/CONTROLLER/LEADER"
EPOCH = f"{_ROOT}/CONTROLLER/EPOCH"
SCHEMAS = f"{_ROOT}/PROPERTYSTORE/SCHEMAS"
TABLE_CONFIGS = f"{_ROOT}/PROPERTYSTORE/CONFIGS/TABLE"
SEGMENTS = f"{_ROOT}/PROPERTYSTORE/SEGMENTS"
USERS = f"{_ROOT}/PROPERTYSTORE/CONFIGS/USER"
CLUSTER_SECRET = f"{_ROOT}/PROPERTYSTORE/CLUSTER_SECRET"
DATABASES = f"{_ROOT}/PROPERTYSTORE/CONFIGS/DATABASE"
APPLICATION_QUOTAS = f"{_ROOT}/PROPERTYSTORE/CONFIGS/APPLICATION_QUOTAS"
BUCKETS = f"{_ROOT}/PROPERTYSTORE/BUCKETS"
SET_ASIDE = f"{_ROOT}/PROPERTYSTORE/SET_ASIDE"
LINEAGES = f"{_ROOT}/PROPERTYSTORE/SEGMENT_LINEAGE"
INSTANCE_PARTITIONS = f"{_ROOT}/PROPERTYSTORE/INSTANCE_PARTITIONS"
TASKS = f"{_ROOT}/PROPERTYSTORE/TASKS"
TASK_LEASES = f"{_ROOT}/PROPERTYSTORE/TASK_LEASES"
TASK_LOCKS = f"{_ROOT}/PROPERTYSTORE/TASK_LOCKS"
TASK_HISTORY = f"{_ROOT}/PROPERTYSTORE/TASK_HISTORY"
TASK_METADATA = f"{_ROOT}/PROPERTYSTORE/MINION_TASK_METADATA"


def participant_config(instance: str) -> str:
    """Return the path of an instance's configuration."""
    return f"{PARTICIPANT_CONFIGS}/{instance}"


def ideal_state(resource: str) -> str:
    """Return the path of a resource's ideal state; a table's resource is its typed name."""
    return f"{IDEAL_STATES}/{resource}"


def external_view(resource: str) -> str:
    """Return the path of a resource's external view."""
    return f"{EXTERNAL_VIEWS}/{resource}"


def live_instance(instance: str) -> str:
    """Return the path of the ephemeral node of a live instance."""
    return f"{LIVE_INSTANCES}/{instance}"


def current_states(instance: str) -> str:
    """Return the parent of an instance's current states, one child for each resource."""
    return f"{INSTANCES}/{instance}/CURRENTSTATES"


def current_state(instance: str, resource: str) -> str:
    """Return the path of an instance's report about a resource."""
    return f"{current_states(instance)}/{resource}"


def messages(instance: str) -> str:
    """Return the parent of the messages sent to an instance."""
    return f"{INSTANCES}/{instance}/MESSAGES"


def schema(name: str) -> str:
    """Return the path of a schema."""
    return f"{SCHEMAS}/{name}"


def table_config(table: str) -> str:
    """Return the path of the config of a typed table."""
    return f"{TABLE_CONFIGS}/{table}"


def user(key: str) -> str:
    """Return the path of a user, `<name>_<component>`."""
    return f"{USERS}/{key}"


def database(name: str) -> str:
    """Return the path of the config of a database."""
    return f"{DATABASES}/{name}"


def segments(table: str) -> str:
    """Return the parent of the segment records of a typed table."""
    return f"{SEGMENTS}/{table}"


def segment(table: str, name: str) -> str:
    """Return the path of a segment's record."""
    return f"{SEGMENTS}/{table}/{name}"


def lineage(table: str) -> str:
    """Return the path of a typed table's lineage of replaced segments."""
    return f"{LINEAGES}/{table}"


def instance_partitions(name: str) -> str:
    """Return the path of stored instance partitions, `<raw table>_<kind>` or a name that tables share."""
    return f"{INSTANCE_PARTITIONS}/{name}"


def task_queue(task_type: str) -> str:
    """Return the path of the queue of a task type."""
    return f"{TASKS}/{task_type}"


def task_job(task_type: str, job: str) -> str:
    """Return the path of a job in the queue of its type; its subtasks are its children, by number."""
    return f"{TASKS}/{task_type}/{job}"


def task_lease(lease: str) -> str:
    """Return the path of the ephemeral node that keeps a worker's lease valid."""
    return f"{TASK_LEASES}/{lease}"


def task_lock(table: str) -> str:
    """Return the path of the ephemeral node that locks the task generation of a typed table."""
    return f"{TASK_LOCKS}/{table}"


def task_metadata(table: str, task_type: str) -> str:
    """Return the path of a task type's metadata of a typed table."""
    return f"{TASK_METADATA}/{table}/{task_type}"
