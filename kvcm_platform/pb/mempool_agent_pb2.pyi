from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_OK: _ClassVar[Outcome]
    OUTCOME_STALE: _ClassVar[Outcome]
    OUTCOME_NOT_WRITTEN: _ClassVar[Outcome]
    OUTCOME_COMMITTED: _ClassVar[Outcome]
    OUTCOME_CORRUPT: _ClassVar[Outcome]

class RangeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RANGE_ABSENT: _ClassVar[RangeState]
    RANGE_WRITING: _ClassVar[RangeState]
    RANGE_COMMITTED: _ClassVar[RangeState]
    RANGE_RELEASED: _ClassVar[RangeState]
    RANGE_CORRUPT: _ClassVar[RangeState]
OUTCOME_OK: Outcome
OUTCOME_STALE: Outcome
OUTCOME_NOT_WRITTEN: Outcome
OUTCOME_COMMITTED: Outcome
OUTCOME_CORRUPT: Outcome
RANGE_ABSENT: RangeState
RANGE_WRITING: RangeState
RANGE_COMMITTED: RangeState
RANGE_RELEASED: RangeState
RANGE_CORRUPT: RangeState

class Range(_message.Message):
    __slots__ = ("offset", "size", "range_id")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    offset: int
    size: int
    range_id: int
    def __init__(self, offset: _Optional[int] = ..., size: _Optional[int] = ..., range_id: _Optional[int] = ...) -> None: ...

class RangeResult(_message.Message):
    __slots__ = ("outcome", "reason", "checksum")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    reason: str
    checksum: int
    def __init__(self, outcome: _Optional[_Union[Outcome, str]] = ..., reason: _Optional[str] = ..., checksum: _Optional[int] = ...) -> None: ...

class RangeResults(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RangeResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RangeResult, _Mapping]]] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("node_id", "segment_id", "size_bytes", "path", "layout_version", "media_type", "started_at", "figures", "owner")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    segment_id: str
    size_bytes: int
    path: str
    layout_version: int
    media_type: int
    started_at: int
    figures: Figures
    owner: str
    def __init__(self, node_id: _Optional[str] = ..., segment_id: _Optional[str] = ..., size_bytes: _Optional[int] = ..., path: _Optional[str] = ..., layout_version: _Optional[int] = ..., media_type: _Optional[int] = ..., started_at: _Optional[int] = ..., figures: _Optional[_Union[Figures, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class Figures(_message.Message):
    __slots__ = ("held_blocks", "held_bytes", "committed_blocks", "released_blocks", "refused_ranges", "received_bytes", "sent_bytes", "open_streams")
    HELD_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    RELEASED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_RANGES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    OPEN_STREAMS_FIELD_NUMBER: _ClassVar[int]
    held_blocks: int
    held_bytes: int
    committed_blocks: int
    released_blocks: int
    refused_ranges: int
    received_bytes: int
    sent_bytes: int
    open_streams: int
    def __init__(self, held_blocks: _Optional[int] = ..., held_bytes: _Optional[int] = ..., committed_blocks: _Optional[int] = ..., released_blocks: _Optional[int] = ..., refused_ranges: _Optional[int] = ..., received_bytes: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., open_streams: _Optional[int] = ...) -> None: ...

class OpenRequest(_message.Message):
    __slots__ = ("segment_id", "ranges")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    ranges: _containers.RepeatedCompositeFieldContainer[Range]
    def __init__(self, segment_id: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[Range, _Mapping]]] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("segment_id", "ranges", "checksums")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    CHECKSUMS_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    ranges: _containers.RepeatedCompositeFieldContainer[Range]
    checksums: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, segment_id: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[Range, _Mapping]]] = ..., checksums: _Optional[_Iterable[int]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("segment_id", "ranges")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    ranges: _containers.RepeatedCompositeFieldContainer[Range]
    def __init__(self, segment_id: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[Range, _Mapping]]] = ...) -> None: ...

class StatRequest(_message.Message):
    __slots__ = ("segment_id", "ranges", "verify")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    ranges: _containers.RepeatedCompositeFieldContainer[Range]
    verify: bool
    def __init__(self, segment_id: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[Range, _Mapping]]] = ..., verify: _Optional[bool] = ...) -> None: ...

class StatResponse(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: _containers.RepeatedCompositeFieldContainer[RangeStat]
    def __init__(self, stats: _Optional[_Iterable[_Union[RangeStat, _Mapping]]] = ...) -> None: ...

class RangeStat(_message.Message):
    __slots__ = ("state", "checksum", "committed_at")
    STATE_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    state: RangeState
    checksum: int
    committed_at: int
    def __init__(self, state: _Optional[_Union[RangeState, str]] = ..., checksum: _Optional[int] = ..., committed_at: _Optional[int] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("segment_id", "first_slab")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SLAB_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    first_slab: int
    def __init__(self, segment_id: _Optional[str] = ..., first_slab: _Optional[int] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("ranges", "next_slab")
    RANGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_SLAB_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[HeldRange]
    next_slab: int
    def __init__(self, ranges: _Optional[_Iterable[_Union[HeldRange, _Mapping]]] = ..., next_slab: _Optional[int] = ...) -> None: ...

class HeldRange(_message.Message):
    __slots__ = ("range", "committed_at")
    RANGE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    range: Range
    committed_at: int
    def __init__(self, range: _Optional[_Union[Range, _Mapping]] = ..., committed_at: _Optional[int] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("segment_id", "owner")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    owner: str
    def __init__(self, segment_id: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("owner",)
    OWNER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    def __init__(self, owner: _Optional[str] = ...) -> None: ...

class WriteChunk(_message.Message):
    __slots__ = ("segment_id", "range", "checksum", "data")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    range: Range
    checksum: int
    data: bytes
    def __init__(self, segment_id: _Optional[str] = ..., range: _Optional[_Union[Range, _Mapping]] = ..., checksum: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("segment_id", "ranges")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    ranges: _containers.RepeatedCompositeFieldContainer[Range]
    def __init__(self, segment_id: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[Range, _Mapping]]] = ...) -> None: ...

class ReadChunk(_message.Message):
    __slots__ = ("index", "result", "checksum", "data")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    index: int
    result: RangeResult
    checksum: int
    data: bytes
    def __init__(self, index: _Optional[int] = ..., result: _Optional[_Union[RangeResult, _Mapping]] = ..., checksum: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...
