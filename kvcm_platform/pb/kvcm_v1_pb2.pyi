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

class StorageType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ST_UNSPECIFIED: _ClassVar[StorageType]
    ST_3FS: _ClassVar[StorageType]
    ST_MOONCAKE: _ClassVar[StorageType]
    ST_TAIRMEMPOOL: _ClassVar[StorageType]
    ST_NFS: _ClassVar[StorageType]
    ST_VCNS_3FS: _ClassVar[StorageType]

class Retention(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETENTION_UNSPECIFIED: _ClassVar[Retention]
    RETENTION_DELETE_SOURCE: _ClassVar[Retention]
    RETENTION_KEEP_BOTH: _ClassVar[Retention]
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
ST_UNSPECIFIED: StorageType
ST_3FS: StorageType
ST_MOONCAKE: StorageType
ST_TAIRMEMPOOL: StorageType
ST_NFS: StorageType
ST_VCNS_3FS: StorageType
RETENTION_UNSPECIFIED: Retention
RETENTION_DELETE_SOURCE: Retention
RETENTION_KEEP_BOTH: Retention

class Status(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: ErrorCode
    message: str
    def __init__(self, code: _Optional[_Union[ErrorCode, str]] = ..., message: _Optional[str] = ...) -> None: ...

class ResponseHeader(_message.Message):
    __slots__ = ("status", "request_id", "tracer_result")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRACER_RESULT_FIELD_NUMBER: _ClassVar[int]
    status: Status
    request_id: str
    tracer_result: str
    def __init__(self, status: _Optional[_Union[Status, _Mapping]] = ..., request_id: _Optional[str] = ..., tracer_result: _Optional[str] = ...) -> None: ...

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

class GetRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "keys")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("header", "locations", "hit_mask")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    HIT_MASK_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    locations: _containers.RepeatedCompositeFieldContainer[ValueLocation]
    hit_mask: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., locations: _Optional[_Iterable[_Union[ValueLocation, _Mapping]]] = ..., hit_mask: _Optional[_Iterable[bool]] = ...) -> None: ...

class PutStartRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "keys", "write_timeout_seconds", "value_sizes")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    WRITE_TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    VALUE_SIZES_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    write_timeout_seconds: int
    value_sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., write_timeout_seconds: _Optional[int] = ..., value_sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class PutStartResponse(_message.Message):
    __slots__ = ("header", "write_session_id", "key_mask", "locations")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    WRITE_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_MASK_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    write_session_id: str
    key_mask: _containers.RepeatedScalarFieldContainer[bool]
    locations: _containers.RepeatedCompositeFieldContainer[ValueLocation]
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., write_session_id: _Optional[str] = ..., key_mask: _Optional[_Iterable[bool]] = ..., locations: _Optional[_Iterable[_Union[ValueLocation, _Mapping]]] = ...) -> None: ...

class PutFinishRequest(_message.Message):
    __slots__ = ("trace_id", "instance_id", "write_session_id", "success_mask")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    WRITE_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_MASK_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_id: str
    write_session_id: str
    success_mask: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, trace_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., write_session_id: _Optional[str] = ..., success_mask: _Optional[_Iterable[bool]] = ...) -> None: ...

class PutFinishResponse(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ...) -> None: ...

class MigrateCacheRequest(_message.Message):
    __slots__ = ("trace_id", "instance_group", "instance_id", "source_storage", "target_storage", "retention", "idle_seconds", "max_bytes", "max_bytes_per_second", "dry_run")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_STORAGE_FIELD_NUMBER: _ClassVar[int]
    TARGET_STORAGE_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    IDLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_group: str
    instance_id: str
    source_storage: str
    target_storage: str
    retention: Retention
    idle_seconds: int
    max_bytes: int
    max_bytes_per_second: int
    dry_run: bool
    def __init__(self, trace_id: _Optional[str] = ..., instance_group: _Optional[str] = ..., instance_id: _Optional[str] = ..., source_storage: _Optional[str] = ..., target_storage: _Optional[str] = ..., retention: _Optional[_Union[Retention, str]] = ..., idle_seconds: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_bytes_per_second: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class MigrateCacheResponse(_message.Message):
    __slots__ = ("header", "migration_id", "planned_blocks", "planned_bytes", "is_plan_complete")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_ID_FIELD_NUMBER: _ClassVar[int]
    PLANNED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_PLAN_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    migration_id: int
    planned_blocks: int
    planned_bytes: int
    is_plan_complete: bool
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., migration_id: _Optional[int] = ..., planned_blocks: _Optional[int] = ..., planned_bytes: _Optional[int] = ..., is_plan_complete: _Optional[bool] = ...) -> None: ...

class GetMigrationRequest(_message.Message):
    __slots__ = ("trace_id", "migration_id")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_ID_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    migration_id: int
    def __init__(self, trace_id: _Optional[str] = ..., migration_id: _Optional[int] = ...) -> None: ...

class CancelMigrationRequest(_message.Message):
    __slots__ = ("trace_id", "migration_id")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_ID_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    migration_id: int
    def __init__(self, trace_id: _Optional[str] = ..., migration_id: _Optional[int] = ...) -> None: ...

class MigrationResponse(_message.Message):
    __slots__ = ("header", "migration_id", "state", "planned_blocks", "planned_bytes", "copied_blocks", "copied_bytes", "there_blocks", "skipped_blocks", "failed_blocks", "eta_seconds", "stop", "detail")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PLANNED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_BYTES_FIELD_NUMBER: _ClassVar[int]
    COPIED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    COPIED_BYTES_FIELD_NUMBER: _ClassVar[int]
    THERE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FAILED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    ETA_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    migration_id: int
    state: str
    planned_blocks: int
    planned_bytes: int
    copied_blocks: int
    copied_bytes: int
    there_blocks: int
    skipped_blocks: int
    failed_blocks: int
    eta_seconds: int
    stop: str
    detail: str
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., migration_id: _Optional[int] = ..., state: _Optional[str] = ..., planned_blocks: _Optional[int] = ..., planned_bytes: _Optional[int] = ..., copied_blocks: _Optional[int] = ..., copied_bytes: _Optional[int] = ..., there_blocks: _Optional[int] = ..., skipped_blocks: _Optional[int] = ..., failed_blocks: _Optional[int] = ..., eta_seconds: _Optional[int] = ..., stop: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class TraceQueryRequest(_message.Message):
    __slots__ = ("trace_id", "instance_group", "instance_id")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    instance_group: str
    instance_id: str
    def __init__(self, trace_id: _Optional[str] = ..., instance_group: _Optional[str] = ..., instance_id: _Optional[str] = ...) -> None: ...

class CapacityEstimate(_message.Message):
    __slots__ = ("factor", "capacity_bytes", "cache_hit_count", "total_blocks", "current_unique_keys", "hit_rate")
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CACHE_HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_UNIQUE_KEYS_FIELD_NUMBER: _ClassVar[int]
    HIT_RATE_FIELD_NUMBER: _ClassVar[int]
    factor: float
    capacity_bytes: int
    cache_hit_count: int
    total_blocks: int
    current_unique_keys: int
    hit_rate: float
    def __init__(self, factor: _Optional[float] = ..., capacity_bytes: _Optional[int] = ..., cache_hit_count: _Optional[int] = ..., total_blocks: _Optional[int] = ..., current_unique_keys: _Optional[int] = ..., hit_rate: _Optional[float] = ...) -> None: ...

class TraceQueryResponse(_message.Message):
    __slots__ = ("header", "cache_hit_count", "total_blocks", "current_unique_keys", "capacities", "real_hit_count", "window_seconds", "at_ms", "since_ms", "has_seen_all")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CACHE_HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_UNIQUE_KEYS_FIELD_NUMBER: _ClassVar[int]
    CAPACITIES_FIELD_NUMBER: _ClassVar[int]
    REAL_HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_SEEN_ALL_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    cache_hit_count: int
    total_blocks: int
    current_unique_keys: int
    capacities: _containers.RepeatedCompositeFieldContainer[CapacityEstimate]
    real_hit_count: int
    window_seconds: int
    at_ms: int
    since_ms: int
    has_seen_all: bool
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., cache_hit_count: _Optional[int] = ..., total_blocks: _Optional[int] = ..., current_unique_keys: _Optional[int] = ..., capacities: _Optional[_Iterable[_Union[CapacityEstimate, _Mapping]]] = ..., real_hit_count: _Optional[int] = ..., window_seconds: _Optional[int] = ..., at_ms: _Optional[int] = ..., since_ms: _Optional[int] = ..., has_seen_all: _Optional[bool] = ...) -> None: ...
