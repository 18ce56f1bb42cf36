"""The compiled JSON form against protobuf's json_format: the same messages, refusals and text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.metadata_service import json_form
from kvcm_platform.metadata_service.json_plans import Reader, Unusual
from kvcm_platform.pb import admin_service_pb2 as admin_pb
from kvcm_platform.pb import meta_service_pb2 as pb

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(max_size=8)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(-(1 << 70), 1 << 70),
    st.sampled_from(["", " 1", "1 ", "+5", "1_0", "1e3", "0x1", "٣", "QT_NEW", "\ud800"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["a", "offset", "[a.b]"]), st.integers(), max_size=1),
)
"""Values of the wrong kind, or of the right one in a form that few use."""


def scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            return objects(field.message_type)
        case FieldDescriptor.TYPE_ENUM:
            values = field.enum_type.values
            return st.sampled_from([*(v.name for v in values), *(v.number for v in values), 77])
        case FieldDescriptor.TYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.TYPE_STRING:
            return TEXT
        case kind:
            numbers = INT64 if kind == FieldDescriptor.TYPE_INT64 else INT32
            return st.one_of(numbers, numbers.map(str))


@st.composite
def objects(draw: st.DrawFn, descriptor: Descriptor) -> dict[str, Any]:
    """A JSON object for a message: either spelling, some members unknown, some odd."""
    found: dict[str, Any] = {}
    for field in draw(
        st.lists(st.sampled_from(list(descriptor.fields)), max_size=6, unique_by=lambda f: f.name)
    ):
        name = draw(st.sampled_from([field.name, field.json_name]))
        one = scalars(field)
        plain = st.lists(one, max_size=4) if field.is_repeated else one
        is_odd = draw(st.integers(0, 11)) == 0
        odd = st.one_of(ODD, st.lists(ODD, max_size=2)) if is_odd else plain
        found[name] = draw(odd)
    if draw(st.integers(0, 3)) == 0:
        found[draw(st.sampled_from(["unknown", "x_y", ""]))] = draw(ODD)
    return found


REQUESTS = list(json_form._READERS)
RESPONSES = list(json_form._PRINTERS)


def outcome(parse: Any, message_class: Any, body: bytes) -> Any:
    try:
        return parse(message_class, body)
    except json_form.BadJson:
        return "bad"


@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("message_class", REQUESTS)
@given(data=st.data())
def test_reading_equals_json_format(message_class, data):
    value = data.draw(objects(message_class.DESCRIPTOR))
    body = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass")
    assert outcome(json_form.parse, message_class, body) == outcome(
        json_form.parse_any, message_class, body
    ), body


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b'"x"', b"1", b"{}", b" {}\n", b"\xef\xbb\xbf{}", b"\xff", b"{}{}"),
        b'{"trace_id": "a", "traceId": "b"}',
        b'{"block_mask": {"offset": 1, "bool_masks": {}}}',
        b'{"block_mask": {"offset": null, "bool_masks": {}}}',
        b'{"block_mask": {"bool_masks": {"offset": 0}}}',
        b'{"block_mask": {}, "block_keys": null, "token_ids": []}',
        b'{"block_keys": ["9223372036854775807", -9223372036854775808, 1.0]}',
        b'{"block_keys": ["9223372036854775808"]}',
        b'{"block_keys": [9223372036854775808]}',
        b'{"block_keys": [9223372036854775807.0]}',
        b'{"block_keys": [-9223372036854775809]}',
        b'{"block_keys": [-9223372036854775808.0, 1e3, -0.0, 9007199254740993.0]}',
        b'{"block_keys": [18446744073709551616]}',
        b'{"block_keys": [1.5]}',
        b'{"sw_size": 2.0, "block_mask": {"offset": 2147483648.0}}',
        b'{"block_keys": [true]}',
        b'{"query_type": "2"}',
        b'{"query_type": 99}',
        b'{"query_type": 9999999999}',
        b'{"sw_size": 2147483648}',
        b'{"unknown": NaN}',
        b'{"[a.b.c]": 1}',
        b'{"unknown": ' + b"[" * 900 + b"]" * 900 + b"}",
    ],
)
def test_documents_at_the_edge(body):
    request = pb.GetCacheLocationRequest
    assert outcome(json_form.parse, request, body) == outcome(json_form.parse_any, request, body)


def test_of_a_member_given_twice_the_last_counts():
    body = b'{"trace_id": "a", "trace_id": "b"}'
    assert json_form.parse(pb.GetCacheLocationRequest, body).trace_id == "b"


def test_a_large_body_is_not_left_to_json_format(monkeypatch):
    """It takes 3 us a value: a whole number written as 5.0 is usual, others are refused by size."""
    head = b'{"token_ids": [' + b"1," * (json_form.MOST_UNUSUAL + 1)
    assert json_form.parse(pb.GetCacheLocationRequest, head + b"5.0]}").token_ids[-1] == 5
    monkeypatch.delattr(json_form, "json_format")
    for odd in (b"1.5]}", b'" 1"]}', b"null]}", b'1], "trace_id": "\\ud800"}'):
        with pytest.raises(DomainError) as caught:
            json_form.parse(pb.GetCacheLocationRequest, head + odd)
        assert caught.value.code is Code.TOO_LARGE


def test_usual_requests_take_the_compiled_way(monkeypatch):
    monkeypatch.delattr(json_form, "parse_any")
    parsed = json_form.parse(
        pb.GetCacheLocationRequest,
        b'{"trace_id": "t", "instanceId": "i", "query_type": "QT_PREFIX_MATCH", "block_keys": [1, "-2"],'
        b' "token_ids": ["3", "4"], "block_mask": {"offset": 0}, "new": {}, "swSize": "5"}',
    )
    assert parsed == pb.GetCacheLocationRequest(
        trace_id="t",
        instance_id="i",
        query_type=pb.QT_PREFIX_MATCH,
        block_keys=[1, -2],
        token_ids=[3, 4],
        block_mask=pb.BlockMask(offset=0),
        sw_size=5,
    )
    assert parsed.block_mask.WhichOneof("info") == "offset"


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor) -> Any:
    message = GetMessageClass(descriptor)()
    for field in draw(st.lists(st.sampled_from(list(descriptor.fields)), max_size=8)):
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            one = messages(field.message_type)
        elif field.type == FieldDescriptor.TYPE_ENUM:
            one = st.sampled_from([*(value.number for value in field.enum_type.values), 77])
        else:
            large = field.type == FieldDescriptor.TYPE_INT64
            one = {
                FieldDescriptor.TYPE_BOOL: st.booleans(),
                FieldDescriptor.TYPE_STRING: TEXT,
            }.get(field.type, INT64 if large else INT32)
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(one, max_size=3)))
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            getattr(message, field.name).CopyFrom(draw(one))
        else:
            setattr(message, field.name, draw(one))
    return message


@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize("message_class", RESPONSES)
@given(data=st.data())
def test_printing_equals_json_format(message_class, data):
    message = data.draw(messages(message_class.DESCRIPTOR))
    assert json.loads(json_form.print_message(message)) == json.loads(json_form.print_any(message))


def test_what_has_no_compiled_form_is_said_at_once():
    with pytest.raises(TypeError, match="used_percentage"):
        Reader(admin_pb.TriggerStrategy)
    with pytest.raises(Unusual):
        Reader(pb.BlockMask).read(b'{"offset": true}')
