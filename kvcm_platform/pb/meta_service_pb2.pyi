from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNSPECIFIED: _ClassVar[ErrorCode]
    OK: _ClassVar[ErrorCode]
    UNSUPPORTED: _ClassVar[ErrorCode]
    INTERNAL_ERROR: _ClassVar[ErrorCode]
    SERVICE_NOT_READY: _ClassVar[ErrorCode]
    INVALID_ARGUMENT: _ClassVar[ErrorCode]
    DUPLICATE_ENTITY: _ClassVar[ErrorCode]
    REACH_MAX_ENTITY_CAPACITY: _ClassVar[ErrorCode]
    INSTANCE_NOT_EXIST: _ClassVar[ErrorCode]
    SERVER_NOT_LEADER: _ClassVar[ErrorCode]
    NODE_NOT_REGISTERED: _ClassVar[ErrorCode]
    SNAPSHOT_IN_PROGRESS: _ClassVar[ErrorCode]
    SNAPSHOT_RATE_LIMITED: _ClassVar[ErrorCode]
    SNAPSHOT_REQUIRED: _ClassVar[ErrorCode]
    IO_ERROR: _ClassVar[ErrorCode]
    UNKNOWN_ERROR: _ClassVar[ErrorCode]
    ERROR_MAX: _ClassVar[ErrorCode]

class StorageType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ST_UNSPECIFIED: _ClassVar[StorageType]
    ST_3FS: _ClassVar[StorageType]
    ST_MOONCAKE: _ClassVar[StorageType]
    ST_TAIRMEMPOOL: _ClassVar[StorageType]
    ST_NFS: _ClassVar[StorageType]
    ST_VCNS_3FS: _ClassVar[StorageType]
    ST_DUMMY: _ClassVar[StorageType]
    ST_EVENT_REPORT_L1P5: _ClassVar[StorageType]
    ST_EVENT_REPORT_L2: _ClassVar[StorageType]

class QueryType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QT_UNSPECIFIED: _ClassVar[QueryType]
    QT_BATCH_GET: _ClassVar[QueryType]
    QT_PREFIX_MATCH: _ClassVar[QueryType]
    QT_REVERSE_ROLL_SW_MATCH: _ClassVar[QueryType]
    QT_PREFIX_MATCH_WITH_MAMBA: _ClassVar[QueryType]

class TrimStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TS_UNSPECIFIED: _ClassVar[TrimStrategy]
    TS_REMOVE_ALL_CACHE: _ClassVar[TrimStrategy]
    TS_REMOVE_ALL_META: _ClassVar[TrimStrategy]
    TS_TIMESTAMP: _ClassVar[TrimStrategy]

class LocationSelectStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LSS_UNSPECIFIED: _ClassVar[LocationSelectStrategy]
    LSS_V6D_PREFIX: _ClassVar[LocationSelectStrategy]
    LSS_V6D_COVERAGE: _ClassVar[LocationSelectStrategy]
    LSS_WEIGHTED_RANDOM: _ClassVar[LocationSelectStrategy]

class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_UNSPECIFIED: _ClassVar[EventType]
    EVENT_NODE_REGISTER: _ClassVar[EventType]
    EVENT_BLOCK_ADD: _ClassVar[EventType]
    EVENT_BLOCK_DELETE: _ClassVar[EventType]
    EVENT_HOST_DOWN: _ClassVar[EventType]
    EVENT_HEARTBEAT: _ClassVar[EventType]
    EVENT_BLOCK_SNAPSHOT: _ClassVar[EventType]
UNSPECIFIED: ErrorCode
OK: ErrorCode
UNSUPPORTED: ErrorCode
INTERNAL_ERROR: ErrorCode
SERVICE_NOT_READY: ErrorCode
INVALID_ARGUMENT: ErrorCode
DUPLICATE_ENTITY: ErrorCode
REACH_MAX_ENTITY_CAPACITY: ErrorCode
INSTANCE_NOT_EXIST: ErrorCode
SERVER_NOT_LEADER: ErrorCode
NODE_NOT_REGISTERED: ErrorCode
SNAPSHOT_IN_PROGRESS: ErrorCode
SNAPSHOT_RATE_LIMITED: ErrorCode
SNAPSHOT_REQUIRED: ErrorCode
IO_ERROR: ErrorCode
UNKNOWN_ERROR: ErrorCode
ERROR_MAX: ErrorCode
ST_UNSPECIFIED: StorageType
ST_3FS: StorageType
ST_MOONCAKE: StorageType
ST_TAIRMEMPOOL: StorageType
ST_NFS: StorageType
ST_VCNS_3FS: StorageType
ST_DUMMY: StorageType
ST_EVENT_REPORT_L1P5: StorageType
ST_EVENT_REPORT_L2: StorageType
QT_UNSPECIFIED: QueryType
QT_BATCH_GET: QueryType
QT_PREFIX_MATCH: QueryType
QT_REVERSE_ROLL_SW_MATCH: QueryType
QT_PREFIX_MATCH_WITH_MAMBA: QueryType
TS_UNSPECIFIED: TrimStrategy
TS_REMOVE_ALL_CACHE: TrimStrategy
TS_REMOVE_ALL_META: TrimStrategy
TS_TIMESTAMP: TrimStrategy
LSS_UNSPECIFIED: LocationSelectStrategy
LSS_V6D_PREFIX: LocationSelectStrategy
LSS_V6D_COVERAGE: LocationSelectStrategy
LSS_WEIGHTED_RANDOM: LocationSelectStrategy
EVENT_UNSPECIFIED: EventType
EVENT_NODE_REGISTER: EventType
EVENT_BLOCK_ADD: EventType
EVENT_BLOCK_DELETE: EventType
EVENT_HOST_DOWN: EventType
EVENT_HEARTBEAT: EventType
EVENT_BLOCK_SNAPSHOT: EventType

class Status(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: ErrorCode
    message: str
    def __init__(self, code: _Optional[_Union[ErrorCode, str]] = ..., message: _Optional[str] = ...) -> None: ...

class CommonResponseHeader(_message.Message):
    __slots__ = ("status", "request_id", "tracer_result")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRACER_RESULT_FIELD_NUMBER: _ClassVar[int]
    status: Status
    request_id: str
    tracer_result: str
    def __init__(self, status: _Optional[_Union[Status, _Mapping]] = ..., request_id: _Optional[str] = ..., tracer_result: _Optional[str] = ...) -> None: ...

class CommonResponse(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ...) -> None: ...

class LocationSpec(_message.Message):
    __slots__ = ("name", "uri")
    NAME_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    name: str
    uri: str
    def __init__(self, name: _Optional[str] = ..., uri: _Optional[str] = ...) -> None: ...

class CacheLocation(_message.Message):
    __slots__ = ("type", "spec_size", "location_specs")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SPEC_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPECS_FIELD_NUMBER: _ClassVar[int]
    type: StorageType
    spec_size: int
    location_specs: _containers.RepeatedCompositeFieldContainer[LocationSpec]
    def __init__(self, type: _Optional[_Union[StorageType, str]] = ..., spec_size: _Optional[int] = ..., location_specs: _Optional[_Iterable[_Union[LocationSpec, _Mapping]]] = ...) -> None: ...

class LocationSpecInfo(_message.Message):
    __slots__ = ("name", "size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class ModelDeployment(_message.Message):
    __slots__ = ("model_name", "dtype", "use_mla", "tp_size", "dp_size", "lora_name", "pp_size", "extra", "user_data", "use_eagle_pop")
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    USE_MLA_FIELD_NUMBER: _ClassVar[int]
    TP_SIZE_FIELD_NUMBER: _ClassVar[int]
    DP_SIZE_FIELD_NUMBER: _ClassVar[int]
    LORA_NAME_FIELD_NUMBER: _ClassVar[int]
    PP_SIZE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    USER_DATA_FIELD_NUMBER: _ClassVar[int]
    USE_EAGLE_POP_FIELD_NUMBER: _ClassVar[int]
    model_name: str
    dtype: str
    use_mla: bool
    tp_size: int
    dp_size: int
    lora_name: str
    pp_size: int
    extra: str
    user_data: str
    use_eagle_pop: bool
    def __init__(self, model_name: _Optional[str] = ..., dtype: _Optional[str] = ..., use_mla: _Optional[bool] = ..., tp_size: _Optional[int] = ..., dp_size: _Optional[int] = ..., lora_name: _Optional[str] = ..., pp_size: _Optional[int] = ..., extra: _Optional[str] = ..., user_data: _Optional[str] = ..., use_eagle_pop: _Optional[bool] = ...) -> None: ...

class LocationSpecGroup(_message.Message):
    __slots__ = ("name", "spec_names")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPEC_NAMES_FIELD_NUMBER: _ClassVar[int]
    name: str
    spec_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., spec_names: _Optional[_Iterable[str]] = ...) -> None: ...

class InstanceInfo(_message.Message):
    __slots__ = ("quota_group_name", "instance_group_name", "instance_id", "block_size", "location_spec_infos", "model_deployment", "location_spec_groups", "default_query_type")
    QUOTA_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPEC_INFOS_FIELD_NUMBER: _ClassVar[int]
    MODEL_DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPEC_GROUPS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_QUERY_TYPE_FIELD_NUMBER: _ClassVar[int]
    quota_group_name: str
    instance_group_name: str
    instance_id: str
    block_size: int
    location_spec_infos: _containers.RepeatedCompositeFieldContainer[LocationSpecInfo]
    model_deployment: ModelDeployment
    location_spec_groups: _containers.RepeatedCompositeFieldContainer[LocationSpecGroup]
    default_query_type: QueryType
    def __init__(self, quota_group_name: _Optional[str] = ..., instance_group_name: _Optional[str] = ..., instance_id: _Optional[str] = ..., block_size: _Optional[int] = ..., location_spec_infos: _Optional[_Iterable[_Union[LocationSpecInfo, _Mapping]]] = ..., model_deployment: _Optional[_Union[ModelDeployment, _Mapping]] = ..., location_spec_groups: _Optional[_Iterable[_Union[LocationSpecGroup, _Mapping]]] = ..., default_query_type: _Optional[_Union[QueryType, str]] = ...) -> None: ...

class LocalStorageSpec(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ThreeFSStorageSpec(_message.Message):
    __slots__ = ("cluster_name", "mountpoint", "root_dir", "key_count_per_file", "touch_file_when_create")
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    MOUNTPOINT_FIELD_NUMBER: _ClassVar[int]
    ROOT_DIR_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_PER_FILE_FIELD_NUMBER: _ClassVar[int]
    TOUCH_FILE_WHEN_CREATE_FIELD_NUMBER: _ClassVar[int]
    cluster_name: str
    mountpoint: str
    root_dir: str
    key_count_per_file: int
    touch_file_when_create: bool
    def __init__(self, cluster_name: _Optional[str] = ..., mountpoint: _Optional[str] = ..., root_dir: _Optional[str] = ..., key_count_per_file: _Optional[int] = ..., touch_file_when_create: _Optional[bool] = ...) -> None: ...

class VcnsThreeFSStorageSpec(_message.Message):
    __slots__ = ("cluster_name", "mountpoint", "root_dir", "key_count_per_file", "touch_file_when_create", "remote_host", "remote_port", "meta_storage_uri")
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    MOUNTPOINT_FIELD_NUMBER: _ClassVar[int]
    ROOT_DIR_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_PER_FILE_FIELD_NUMBER: _ClassVar[int]
    TOUCH_FILE_WHEN_CREATE_FIELD_NUMBER: _ClassVar[int]
    REMOTE_HOST_FIELD_NUMBER: _ClassVar[int]
    REMOTE_PORT_FIELD_NUMBER: _ClassVar[int]
    META_STORAGE_URI_FIELD_NUMBER: _ClassVar[int]
    cluster_name: str
    mountpoint: str
    root_dir: str
    key_count_per_file: int
    touch_file_when_create: bool
    remote_host: str
    remote_port: int
    meta_storage_uri: str
    def __init__(self, cluster_name: _Optional[str] = ..., mountpoint: _Optional[str] = ..., root_dir: _Optional[str] = ..., key_count_per_file: _Optional[int] = ..., touch_file_when_create: _Optional[bool] = ..., remote_host: _Optional[str] = ..., remote_port: _Optional[int] = ..., meta_storage_uri: _Optional[str] = ...) -> None: ...

class MooncakeStorageSpec(_message.Message):
    __slots__ = ("local_hostname", "metadata_connstring", "protocol", "rdma_device", "master_service_entry")
    LOCAL_HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_CONNSTRING_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    RDMA_DEVICE_FIELD_NUMBER: _ClassVar[int]
    MASTER_SERVICE_ENTRY_FIELD_NUMBER: _ClassVar[int]
    local_hostname: str
    metadata_connstring: str
    protocol: str
    rdma_device: str
    master_service_entry: str
    def __init__(self, local_hostname: _Optional[str] = ..., metadata_connstring: _Optional[str] = ..., protocol: _Optional[str] = ..., rdma_device: _Optional[str] = ..., master_service_entry: _Optional[str] = ...) -> None: ...

class TairMemPoolStorageSpec(_message.Message):
    __slots__ = ("domain", "timeout", "enable_vipserver", "service_discovery_url", "media_type")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ENABLE_VIPSERVER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_DISCOVERY_URL_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    domain: str
    timeout: int
    enable_vipserver: bool
    service_discovery_url: str
    media_type: int
    def __init__(self, domain: _Optional[str] = ..., timeout: _Optional[int] = ..., enable_vipserver: _Optional[bool] = ..., service_discovery_url: _Optional[str] = ..., media_type: _Optional[int] = ...) -> None: ...

class NfsStorageSpec(_message.Message):
    __slots__ = ("root_path", "key_count_per_file")
    ROOT_PATH_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_PER_FILE_FIELD_NUMBER: _ClassVar[int]
    root_path: str
    key_count_per_file: int
    def __init__(self, root_path: _Optional[str] = ..., key_count_per_file: _Optional[int] = ...) -> None: ...

class DummyStorageSpec(_message.Message):
    __slots__ = ("root_path", "key_count_per_file")
    ROOT_PATH_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_PER_FILE_FIELD_NUMBER: _ClassVar[int]
    root_path: str
    key_count_per_file: int
    def __init__(self, root_path: _Optional[str] = ..., key_count_per_file: _Optional[int] = ...) -> None: ...

class StorageConfig(_message.Message):
    __slots__ = ("global_unique_name", "local", "threefs", "mooncake", "tair_mem_pool", "nfs", "vcnsthreefs", "dummy", "check_storage_available_when_open")
    GLOBAL_UNIQUE_NAME_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    THREEFS_FIELD_NUMBER: _ClassVar[int]
    MOONCAKE_FIELD_NUMBER: _ClassVar[int]
    TAIR_MEM_POOL_FIELD_NUMBER: _ClassVar[int]
    NFS_FIELD_NUMBER: _ClassVar[int]
    VCNSTHREEFS_FIELD_NUMBER: _ClassVar[int]
    DUMMY_FIELD_NUMBER: _ClassVar[int]
    CHECK_STORAGE_AVAILABLE_WHEN_OPEN_FIELD_NUMBER: _ClassVar[int]
    global_unique_name: str
    local: LocalStorageSpec
    threefs: ThreeFSStorageSpec
    mooncake: MooncakeStorageSpec
    tair_mem_pool: TairMemPoolStorageSpec
    nfs: NfsStorageSpec
    vcnsthreefs: ThreeFSStorageSpec
    dummy: DummyStorageSpec
    check_storage_available_when_open: bool
    def __init__(self, global_unique_name: _Optional[str] = ..., local: _Optional[_Union[LocalStorageSpec, _Mapping]] = ..., threefs: _Optional[_Union[ThreeFSStorageSpec, _Mapping]] = ..., mooncake: _Optional[_Union[MooncakeStorageSpec, _Mapping]] = ..., tair_mem_pool: _Optional[_Union[TairMemPoolStorageSpec, _Mapping]] = ..., nfs: _Optional[_Union[NfsStorageSpec, _Mapping]] = ..., vcnsthreefs: _Optional[_Union[ThreeFSStorageSpec, _Mapping]] = ..., dummy: _Optional[_Union[DummyStorageSpec, _Mapping]] = ..., check_storage_available_when_open: _Optional[bool] = ...) -> None: ...

class RegisterInstanceRequest(_message.Message):
    __slots__ = ("trace_id", "instance_group", "instance_id", "block_size", "location_spec_infos", "model_deployment", "location_spec_groups", "default_query_type")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPEC_INFOS_FIELD_NUMBER: _ClassVar[int]
    MODEL_DEPLOYMENT_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPEC_GROUPS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_QUERY_TYPE_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_group: str
    instance_id: str
    block_size: int
    location_spec_infos: _containers.RepeatedCompositeFieldContainer[LocationSpecInfo]
    model_deployment: ModelDeployment
    location_spec_groups: _containers.RepeatedCompositeFieldContainer[LocationSpecGroup]
    default_query_type: QueryType
    def __init__(self, trace_id: _Optional[str] = ..., instance_group: _Optional[str] = ..., instance_id: _Optional[str] = ..., block_size: _Optional[int] = ..., location_spec_infos: _Optional[_Iterable[_Union[LocationSpecInfo, _Mapping]]] = ..., model_deployment: _Optional[_Union[ModelDeployment, _Mapping]] = ..., location_spec_groups: _Optional[_Iterable[_Union[LocationSpecGroup, _Mapping]]] = ..., default_query_type: _Optional[_Union[QueryType, str]] = ...) -> None: ...

class RegisterInstanceResponse(_message.Message):
    __slots__ = ("header", "storage_configs", "extra_info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_INFO_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    storage_configs: str
    extra_info: str
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., storage_configs: _Optional[str] = ..., extra_info: _Optional[str] = ...) -> None: ...

class GetInstanceInfoRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ...) -> None: ...

class GetInstanceInfoResponse(_message.Message):
    __slots__ = ("header", "instance_group", "instance_info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_INFO_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    instance_group: str
    instance_info: InstanceInfo
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., instance_group: _Optional[str] = ..., instance_info: _Optional[_Union[InstanceInfo, _Mapping]] = ...) -> None: ...

class BoolMasksType(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, values: _Optional[_Iterable[bool]] = ...) -> None: ...

class BlockMask(_message.Message):
    __slots__ = ("offset", "bool_masks")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BOOL_MASKS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    bool_masks: BoolMasksType
    def __init__(self, offset: _Optional[int] = ..., bool_masks: _Optional[_Union[BoolMasksType, _Mapping]] = ...) -> None: ...

class GetCacheLocationRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "query_type", "block_keys", "token_ids", "block_mask", "sw_size", "location_spec_names")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_TYPE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_KEYS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_MASK_FIELD_NUMBER: _ClassVar[int]
    SW_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPEC_NAMES_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    query_type: QueryType
    block_keys: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    block_mask: BlockMask
    sw_size: int
    location_spec_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., query_type: _Optional[_Union[QueryType, str]] = ..., block_keys: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., block_mask: _Optional[_Union[BlockMask, _Mapping]] = ..., sw_size: _Optional[int] = ..., location_spec_names: _Optional[_Iterable[str]] = ...) -> None: ...

class GetCacheLocationResponse(_message.Message):
    __slots__ = ("header", "locations")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    locations: _containers.RepeatedCompositeFieldContainer[CacheLocation]
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., locations: _Optional[_Iterable[_Union[CacheLocation, _Mapping]]] = ...) -> None: ...

class GetCacheMetaRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "block_keys", "token_ids", "block_mask", "detail_level")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_KEYS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_MASK_FIELD_NUMBER: _ClassVar[int]
    DETAIL_LEVEL_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    block_keys: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    block_mask: BlockMask
    detail_level: int
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., block_keys: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., block_mask: _Optional[_Union[BlockMask, _Mapping]] = ..., detail_level: _Optional[int] = ...) -> None: ...

class GetCacheMetaResponse(_message.Message):
    __slots__ = ("header", "locations", "metas")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    METAS_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    locations: _containers.RepeatedCompositeFieldContainer[CacheLocation]
    metas: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., locations: _Optional[_Iterable[_Union[CacheLocation, _Mapping]]] = ..., metas: _Optional[_Iterable[str]] = ...) -> None: ...

class StartWriteCacheRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "block_keys", "token_ids", "location_spec_group_names", "write_timeout_seconds", "min_replica_count")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_KEYS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPEC_GROUP_NAMES_FIELD_NUMBER: _ClassVar[int]
    WRITE_TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_COUNT_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    block_keys: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    location_spec_group_names: _containers.RepeatedScalarFieldContainer[str]
    write_timeout_seconds: int
    min_replica_count: int
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., block_keys: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., location_spec_group_names: _Optional[_Iterable[str]] = ..., write_timeout_seconds: _Optional[int] = ..., min_replica_count: _Optional[int] = ...) -> None: ...

class StartWriteCacheResponse(_message.Message):
    __slots__ = ("header", "write_session_id", "block_mask", "locations")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    WRITE_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_MASK_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    write_session_id: str
    block_mask: BlockMask
    locations: _containers.RepeatedCompositeFieldContainer[CacheLocation]
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., write_session_id: _Optional[str] = ..., block_mask: _Optional[_Union[BlockMask, _Mapping]] = ..., locations: _Optional[_Iterable[_Union[CacheLocation, _Mapping]]] = ...) -> None: ...

class FinishWriteCacheRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "write_session_id", "success_blocks", "locations")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    WRITE_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    write_session_id: str
    success_blocks: BlockMask
    locations: _containers.RepeatedCompositeFieldContainer[CacheLocation]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., write_session_id: _Optional[str] = ..., success_blocks: _Optional[_Union[BlockMask, _Mapping]] = ..., locations: _Optional[_Iterable[_Union[CacheLocation, _Mapping]]] = ...) -> None: ...

class RemoveCacheRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "block_keys", "token_ids", "block_mask")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_KEYS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_MASK_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    block_keys: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    block_mask: BlockMask
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., block_keys: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., block_mask: _Optional[_Union[BlockMask, _Mapping]] = ...) -> None: ...

class TrimCacheRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "strategy", "begin_timestamp", "end_timestamp")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    END_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    strategy: TrimStrategy
    begin_timestamp: int
    end_timestamp: int
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., strategy: _Optional[_Union[TrimStrategy, str]] = ..., begin_timestamp: _Optional[int] = ..., end_timestamp: _Optional[int] = ...) -> None: ...

class GetCacheLocationLenRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "query_type", "block_keys", "token_ids", "sw_size")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_TYPE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_KEYS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SW_SIZE_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    query_type: QueryType
    block_keys: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    sw_size: int
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., query_type: _Optional[_Union[QueryType, str]] = ..., block_keys: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., sw_size: _Optional[int] = ...) -> None: ...

class GetCacheLocationLenResponse(_message.Message):
    __slots__ = ("header", "cache_location_len")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CACHE_LOCATION_LEN_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    cache_location_len: int
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., cache_location_len: _Optional[int] = ...) -> None: ...

class NodeEndpoint(_message.Message):
    __slots__ = ("node_id", "host", "meta_rpc_port", "meta_http_port", "custom_info")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    META_RPC_PORT_FIELD_NUMBER: _ClassVar[int]
    META_HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_INFO_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    host: str
    meta_rpc_port: int
    meta_http_port: int
    custom_info: str
    def __init__(self, node_id: _Optional[str] = ..., host: _Optional[str] = ..., meta_rpc_port: _Optional[int] = ..., meta_http_port: _Optional[int] = ..., custom_info: _Optional[str] = ...) -> None: ...

class GetClusterInfoRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ...) -> None: ...

class GetClusterInfoResponse(_message.Message):
    __slots__ = ("header", "self_node_id", "leader_node_id", "leader_endpoint")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SELF_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    self_node_id: str
    leader_node_id: str
    leader_endpoint: NodeEndpoint
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., self_node_id: _Optional[str] = ..., leader_node_id: _Optional[str] = ..., leader_endpoint: _Optional[_Union[NodeEndpoint, _Mapping]] = ...) -> None: ...

class BackendSelector(_message.Message):
    __slots__ = ("backend_type", "strategy")
    BACKEND_TYPE_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    backend_type: StorageType
    strategy: LocationSelectStrategy
    def __init__(self, backend_type: _Optional[_Union[StorageType, str]] = ..., strategy: _Optional[_Union[LocationSelectStrategy, str]] = ...) -> None: ...

class GetCacheLocationsByBackendRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "query_type", "block_keys", "token_ids", "block_mask", "sw_size", "location_spec_names", "backend_selectors")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_TYPE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_KEYS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_MASK_FIELD_NUMBER: _ClassVar[int]
    SW_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPEC_NAMES_FIELD_NUMBER: _ClassVar[int]
    BACKEND_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    query_type: QueryType
    block_keys: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    block_mask: BlockMask
    sw_size: int
    location_spec_names: _containers.RepeatedScalarFieldContainer[str]
    backend_selectors: _containers.RepeatedCompositeFieldContainer[BackendSelector]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., query_type: _Optional[_Union[QueryType, str]] = ..., block_keys: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., block_mask: _Optional[_Union[BlockMask, _Mapping]] = ..., sw_size: _Optional[int] = ..., location_spec_names: _Optional[_Iterable[str]] = ..., backend_selectors: _Optional[_Iterable[_Union[BackendSelector, _Mapping]]] = ...) -> None: ...

class CacheLocationVector(_message.Message):
    __slots__ = ("locations",)
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    locations: _containers.RepeatedCompositeFieldContainer[CacheLocation]
    def __init__(self, locations: _Optional[_Iterable[_Union[CacheLocation, _Mapping]]] = ...) -> None: ...

class GetCacheLocationsByBackendResponse(_message.Message):
    __slots__ = ("header", "key_locations")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    KEY_LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    key_locations: _containers.RepeatedCompositeFieldContainer[CacheLocationVector]
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., key_locations: _Optional[_Iterable[_Union[CacheLocationVector, _Mapping]]] = ...) -> None: ...

class GetHostCacheStateRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "query_type", "block_cache_keys", "medium")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_TYPE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_CACHE_KEYS_FIELD_NUMBER: _ClassVar[int]
    MEDIUM_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    query_type: QueryType
    block_cache_keys: _containers.RepeatedScalarFieldContainer[int]
    medium: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., query_type: _Optional[_Union[QueryType, str]] = ..., block_cache_keys: _Optional[_Iterable[int]] = ..., medium: _Optional[_Iterable[str]] = ...) -> None: ...

class HostCacheMatch(_message.Message):
    __slots__ = ("host_ip_port", "local", "p2p_1_fetch", "p2p_1_total_match")
    HOST_IP_PORT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    P2P_1_FETCH_FIELD_NUMBER: _ClassVar[int]
    P2P_1_TOTAL_MATCH_FIELD_NUMBER: _ClassVar[int]
    host_ip_port: str
    local: int
    p2p_1_fetch: int
    p2p_1_total_match: int
    def __init__(self, host_ip_port: _Optional[str] = ..., local: _Optional[int] = ..., p2p_1_fetch: _Optional[int] = ..., p2p_1_total_match: _Optional[int] = ...) -> None: ...

class GetHostCacheStateResponse(_message.Message):
    __slots__ = ("header", "hosts")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    hosts: _containers.RepeatedCompositeFieldContainer[HostCacheMatch]
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., hosts: _Optional[_Iterable[_Union[HostCacheMatch, _Mapping]]] = ...) -> None: ...

class NodeRegisterEventParams(_message.Message):
    __slots__ = ("mediums",)
    MEDIUMS_FIELD_NUMBER: _ClassVar[int]
    mediums: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, mediums: _Optional[_Iterable[str]] = ...) -> None: ...

class BlockAddEventParams(_message.Message):
    __slots__ = ("block_key", "uri", "medium", "specs")
    BLOCK_KEY_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    MEDIUM_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    block_key: str
    uri: str
    medium: str
    specs: _containers.RepeatedCompositeFieldContainer[LocationSpec]
    def __init__(self, block_key: _Optional[str] = ..., uri: _Optional[str] = ..., medium: _Optional[str] = ..., specs: _Optional[_Iterable[_Union[LocationSpec, _Mapping]]] = ...) -> None: ...

class BlockDeleteEventParams(_message.Message):
    __slots__ = ("block_key", "medium", "spec_names")
    BLOCK_KEY_FIELD_NUMBER: _ClassVar[int]
    MEDIUM_FIELD_NUMBER: _ClassVar[int]
    SPEC_NAMES_FIELD_NUMBER: _ClassVar[int]
    block_key: str
    medium: str
    spec_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, block_key: _Optional[str] = ..., medium: _Optional[str] = ..., spec_names: _Optional[_Iterable[str]] = ...) -> None: ...

class HostDownEventParams(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HeartbeatEventParams(_message.Message):
    __slots__ = ("system_status",)
    class SystemStatusEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SYSTEM_STATUS_FIELD_NUMBER: _ClassVar[int]
    system_status: _containers.ScalarMap[str, str]
    def __init__(self, system_status: _Optional[_Mapping[str, str]] = ...) -> None: ...

class BlockSnapshotItem(_message.Message):
    __slots__ = ("block_key", "medium", "specs")
    BLOCK_KEY_FIELD_NUMBER: _ClassVar[int]
    MEDIUM_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    block_key: str
    medium: str
    specs: _containers.RepeatedCompositeFieldContainer[LocationSpec]
    def __init__(self, block_key: _Optional[str] = ..., medium: _Optional[str] = ..., specs: _Optional[_Iterable[_Union[LocationSpec, _Mapping]]] = ...) -> None: ...

class BlockSnapshotEventParams(_message.Message):
    __slots__ = ("medium", "blocks")
    MEDIUM_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    medium: str
    blocks: _containers.RepeatedCompositeFieldContainer[BlockSnapshotItem]
    def __init__(self, medium: _Optional[str] = ..., blocks: _Optional[_Iterable[_Union[BlockSnapshotItem, _Mapping]]] = ...) -> None: ...

class EventItem(_message.Message):
    __slots__ = ("event_type", "node_register", "block_add", "block_delete", "host_down", "heartbeat", "block_snapshot")
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    NODE_REGISTER_FIELD_NUMBER: _ClassVar[int]
    BLOCK_ADD_FIELD_NUMBER: _ClassVar[int]
    BLOCK_DELETE_FIELD_NUMBER: _ClassVar[int]
    HOST_DOWN_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    event_type: EventType
    node_register: NodeRegisterEventParams
    block_add: BlockAddEventParams
    block_delete: BlockDeleteEventParams
    host_down: HostDownEventParams
    heartbeat: HeartbeatEventParams
    block_snapshot: BlockSnapshotEventParams
    def __init__(self, event_type: _Optional[_Union[EventType, str]] = ..., node_register: _Optional[_Union[NodeRegisterEventParams, _Mapping]] = ..., block_add: _Optional[_Union[BlockAddEventParams, _Mapping]] = ..., block_delete: _Optional[_Union[BlockDeleteEventParams, _Mapping]] = ..., host_down: _Optional[_Union[HostDownEventParams, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatEventParams, _Mapping]] = ..., block_snapshot: _Optional[_Union[BlockSnapshotEventParams, _Mapping]] = ...) -> None: ...

class ReportEventRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "host_ip_port", "events", "storage_type")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_IP_PORT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    STORAGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    host_ip_port: str
    events: _containers.RepeatedCompositeFieldContainer[EventItem]
    storage_type: StorageType
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., host_ip_port: _Optional[str] = ..., events: _Optional[_Iterable[_Union[EventItem, _Mapping]]] = ..., storage_type: _Optional[_Union[StorageType, str]] = ...) -> None: ...

class ReportEventResponse(_message.Message):
    __slots__ = ("header", "item_results", "committed_snapshot_version", "retry_after_ms", "snapshot_required", "extra_info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ITEM_RESULTS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_SNAPSHOT_VERSION_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    EXTRA_INFO_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    item_results: _containers.RepeatedScalarFieldContainer[ErrorCode]
    committed_snapshot_version: str
    retry_after_ms: int
    snapshot_required: bool
    extra_info: str
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., item_results: _Optional[_Iterable[_Union[ErrorCode, str]]] = ..., committed_snapshot_version: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., snapshot_required: _Optional[bool] = ..., extra_info: _Optional[str] = ...) -> None: ...
