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
    REACH_MAX_ENTITY_CAPACITY: _ClassVar[ErrorCode]
    INSTANCE_NOT_EXIST: _ClassVar[ErrorCode]
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

class QueryType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QT_UNSPECIFIED: _ClassVar[QueryType]
    QT_BATCH_GET: _ClassVar[QueryType]

class TrimStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TS_UNSPECIFIED: _ClassVar[TrimStrategy]
    TS_REMOVE_ALL_CACHE: _ClassVar[TrimStrategy]
    TS_REMOVE_ALL_META: _ClassVar[TrimStrategy]
    TS_TIMESTAMP: _ClassVar[TrimStrategy]
UNSPECIFIED: ErrorCode
OK: ErrorCode
UNSUPPORTED: ErrorCode
INTERNAL_ERROR: ErrorCode
SERVICE_NOT_READY: ErrorCode
INVALID_ARGUMENT: ErrorCode
REACH_MAX_ENTITY_CAPACITY: ErrorCode
INSTANCE_NOT_EXIST: ErrorCode
IO_ERROR: ErrorCode
UNKNOWN_ERROR: ErrorCode
ERROR_MAX: ErrorCode
ST_UNSPECIFIED: StorageType
ST_3FS: StorageType
ST_MOONCAKE: StorageType
ST_TAIRMEMPOOL: StorageType
ST_NFS: StorageType
ST_VCNS_3FS: StorageType
QT_UNSPECIFIED: QueryType
QT_BATCH_GET: QueryType
TS_UNSPECIFIED: TrimStrategy
TS_REMOVE_ALL_CACHE: TrimStrategy
TS_REMOVE_ALL_META: TrimStrategy
TS_TIMESTAMP: TrimStrategy

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

class ValueLocation(_message.Message):
    __slots__ = ("type", "spec_size", "location_specs")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SPEC_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_SPECS_FIELD_NUMBER: _ClassVar[int]
    type: StorageType
    spec_size: int
    location_specs: _containers.RepeatedCompositeFieldContainer[LocationSpec]
    def __init__(self, type: _Optional[_Union[StorageType, str]] = ..., spec_size: _Optional[int] = ..., location_specs: _Optional[_Iterable[_Union[LocationSpec, _Mapping]]] = ...) -> None: ...

class InstanceInfo(_message.Message):
    __slots__ = ("quota_group_name", "instance_group_name", "instance_id")
    QUOTA_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    quota_group_name: str
    instance_group_name: str
    instance_id: str
    def __init__(self, quota_group_name: _Optional[str] = ..., instance_group_name: _Optional[str] = ..., instance_id: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("domain", "timeout")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    domain: str
    timeout: int
    def __init__(self, domain: _Optional[str] = ..., timeout: _Optional[int] = ...) -> None: ...

class NfsStorageSpec(_message.Message):
    __slots__ = ("root_path", "key_count_per_file")
    ROOT_PATH_FIELD_NUMBER: _ClassVar[int]
    KEY_COUNT_PER_FILE_FIELD_NUMBER: _ClassVar[int]
    root_path: str
    key_count_per_file: int
    def __init__(self, root_path: _Optional[str] = ..., key_count_per_file: _Optional[int] = ...) -> None: ...

class StorageConfig(_message.Message):
    __slots__ = ("global_unique_name", "local", "threefs", "mooncake", "tair_mem_pool", "nfs", "vcnsthreefs", "check_storage_available_when_open")
    GLOBAL_UNIQUE_NAME_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    THREEFS_FIELD_NUMBER: _ClassVar[int]
    MOONCAKE_FIELD_NUMBER: _ClassVar[int]
    TAIR_MEM_POOL_FIELD_NUMBER: _ClassVar[int]
    NFS_FIELD_NUMBER: _ClassVar[int]
    VCNSTHREEFS_FIELD_NUMBER: _ClassVar[int]
    CHECK_STORAGE_AVAILABLE_WHEN_OPEN_FIELD_NUMBER: _ClassVar[int]
    global_unique_name: str
    local: LocalStorageSpec
    threefs: ThreeFSStorageSpec
    mooncake: MooncakeStorageSpec
    tair_mem_pool: TairMemPoolStorageSpec
    nfs: NfsStorageSpec
    vcnsthreefs: ThreeFSStorageSpec
    check_storage_available_when_open: bool
    def __init__(self, global_unique_name: _Optional[str] = ..., local: _Optional[_Union[LocalStorageSpec, _Mapping]] = ..., threefs: _Optional[_Union[ThreeFSStorageSpec, _Mapping]] = ..., mooncake: _Optional[_Union[MooncakeStorageSpec, _Mapping]] = ..., tair_mem_pool: _Optional[_Union[TairMemPoolStorageSpec, _Mapping]] = ..., nfs: _Optional[_Union[NfsStorageSpec, _Mapping]] = ..., vcnsthreefs: _Optional[_Union[ThreeFSStorageSpec, _Mapping]] = ..., check_storage_available_when_open: _Optional[bool] = ...) -> None: ...

class RegisterInstanceRequest(_message.Message):
    __slots__ = ("trace_id", "instance_group", "instance_id", "user_data")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    USER_DATA_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_group: str
    instance_id: str
    user_data: str
    def __init__(self, trace_id: _Optional[str] = ..., instance_group: _Optional[str] = ..., instance_id: _Optional[str] = ..., user_data: _Optional[str] = ...) -> None: ...

class RegisterInstanceResponse(_message.Message):
    __slots__ = ("header", "storage_configs")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    storage_configs: str
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., storage_configs: _Optional[str] = ...) -> None: ...

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

class KeyMask(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, values: _Optional[_Iterable[bool]] = ...) -> None: ...

class Meta(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "query_type", "keys", "metas")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_TYPE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    METAS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    query_type: QueryType
    keys: _containers.RepeatedScalarFieldContainer[str]
    metas: _containers.RepeatedCompositeFieldContainer[Meta]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., query_type: _Optional[_Union[QueryType, str]] = ..., keys: _Optional[_Iterable[str]] = ..., metas: _Optional[_Iterable[_Union[Meta, _Mapping]]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("header", "locations")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    locations: _containers.RepeatedCompositeFieldContainer[ValueLocation]
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., locations: _Optional[_Iterable[_Union[ValueLocation, _Mapping]]] = ...) -> None: ...

class PutStartRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "keys", "write_timeout_seconds")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    WRITE_TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    write_timeout_seconds: int
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., write_timeout_seconds: _Optional[int] = ...) -> None: ...

class PutStartResponse(_message.Message):
    __slots__ = ("header", "write_session_id", "key_mask", "locations")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    WRITE_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_MASK_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    header: CommonResponseHeader
    write_session_id: str
    key_mask: KeyMask
    locations: _containers.RepeatedCompositeFieldContainer[ValueLocation]
    def __init__(self, header: _Optional[_Union[CommonResponseHeader, _Mapping]] = ..., write_session_id: _Optional[str] = ..., key_mask: _Optional[_Union[KeyMask, _Mapping]] = ..., locations: _Optional[_Iterable[_Union[ValueLocation, _Mapping]]] = ...) -> None: ...

class PutFinishRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "write_session_id", "locations")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    WRITE_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    write_session_id: str
    locations: _containers.RepeatedCompositeFieldContainer[ValueLocation]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., write_session_id: _Optional[str] = ..., locations: _Optional[_Iterable[_Union[ValueLocation, _Mapping]]] = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "keys")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class TrimRequest(_message.Message):
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
