"""Keys and values over the block index: masks, names, sizes, and keys whose first 64 bits are equal."""

from __future__ import annotations

import hashlib

import pytest

from kvcm_platform.core import values
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.core.values import Named, named, value_bytes_of
from tests.support.data_plane import VALUE_BYTES, DataPlane, found, value_instance

ID = "values"


@pytest.fixture(params=[1, 3])
async def service(request, plane: DataPlane):
    """The service over an instance of keys and values with one shard, and with three."""
    plane.publish(2, value_instance(shards=request.param))
    await plane.mirror.refresh()
    return plane.service


async def put(service, *keys: str, sizes=()) -> list[str]:
    """Writes values; the URIs of their places."""
    started = await service.put_start(ID, keys, sizes, 30)
    await service.put_finish(ID, started.session_id, len(started.locations))
    return uris(started.locations)


def uris(wires) -> list[str]:
    return [found(wire).uri for wire in wires]


async def get(service, *keys: str) -> list[str]:
    found_, hits = await service.get_values(ID, keys)
    answer = uris(found_)
    assert hits == [bool(uri) for uri in answer]
    return answer


async def refusal(work) -> DomainError:
    with pytest.raises(DomainError) as caught:
        await work
    return caught.value


async def test_put_and_get(service, plane: DataPlane, tmp_path) -> None:
    written = await put(service, "a", "päth/to b", "c" * 1024)
    assert await get(service, "päth/to b", "nothing", "a", "a") == [written[1], "", written[0], written[0]]
    for uri, key in zip(written, ("a", "päth/to b", "c" * 1024), strict=True):
        parsed = parse_uri(uri)
        digest = hashlib.blake2b(key.encode(), digest_size=16, key=(0xF00D).to_bytes(8)).hexdigest()
        # A file of its own, although the storage has eight slots a file.
        assert parsed.path.startswith(f"{tmp_path}/nfs/{ID}/value/{digest}.")
        assert (parsed.size, parsed.slot) == (VALUE_BYTES, 0)
    assert len({uri.partition("?")[0] for uri in written}) == 3
    assert (await plane.recount()).used == 3 * VALUE_BYTES


async def test_the_mask_says_what_needs_no_write(service) -> None:
    await put(service, "there")
    started = await service.put_start(ID, ["new", "there", "new", "too"], (), 30)
    assert started.mask == [False, True, True, False]
    assert len(started.locations) == 2
    again = await service.put_start(ID, ["too", "other"], (), 30)
    assert again.mask == [True, False], "it is being written"
    assert await get(service, "new") == [""]


async def test_finish_by_uris(service) -> None:
    started = await service.put_start(ID, ["a", "b", "c"], (), 30)
    places = uris(started.locations)
    other = await service.put_start(ID, ["d"], (), 30)
    foreign = uris(other.locations)[0]
    for bad in (foreign, "", places[0].replace("value/", "value/0"), places[0].replace(ID, "values2")):
        error = await refusal(service.put_finish_listed(ID, started.session_id, [places[1], bad]))
        assert (error.code, error.field) == (Code.INVALID_ARGUMENT, "locations")
    assert await get(service, "b") == [""], "the session is open still"
    await service.put_finish_listed(ID, started.session_id, [places[2], places[0], places[2]])
    assert await get(service, "a", "b", "c") == [places[0], "", places[2]]
    error = await refusal(service.put_finish_listed(ID, started.session_id, []))
    assert (error.code, error.message) == (Code.INTERNAL, "write_session_id has been deleted")
    await service.put_finish_listed(ID, other.session_id, [])
    assert await get(service, "d") == [foreign]


async def test_finish_by_mask(service) -> None:
    started = await service.put_start(ID, ["a", "b"], (), 30)
    for bad in ([True], [True] * 3):
        assert (await refusal(service.put_finish(ID, started.session_id, bad))).code is Code.INVALID_ARGUMENT
    await service.put_finish(ID, started.session_id, [False, True])
    assert await get(service, "a", "b") == ["", uris(started.locations)[1]]
    nothing = await service.put_start(ID, ["b"], (), 30)
    assert (nothing.mask, nothing.locations) == ([True], [])
    await service.put_finish_listed(ID, nothing.session_id, [])


async def test_finish_after_another_writer_was_faster_for_some(
    service, plane: DataPlane, monkeypatch
) -> None:
    """This Start saw nothing of the others' keys; the insert finds them, and the session leaves them out."""
    keys = [f"k{number}" for number in range(8)]
    await service.put_start(ID, keys[::3], (), 30)

    async def nothing(instance, block_keys):
        return [None] * len(block_keys)

    with monkeypatch.context() as patch:
        patch.setattr(plane.index, "records", nothing)
        started = await service.put_start(ID, keys, (), 30)
    assert started.mask == [at % 3 == 0 for at in range(8)]
    places = uris(started.locations)
    assert len(places) == 5
    await service.put_finish_listed(ID, started.session_id, [places[4], places[1]])
    # Places belong to k1, k2, k4, k5 and k7.
    assert await get(service, *keys) == ["", "", places[1], "", "", "", "", places[4]]


async def test_sizes_of_values(service, plane: DataPlane) -> None:
    sizes = [1, VALUE_BYTES, 77, 1]
    written = await put(service, "a", "b", "c", "d", sizes=sizes)
    assert [parse_uri(uri).size for uri in written] == sizes
    assert await get(service, "a", "b", "c", "d") == written
    assert (await plane.recount()).used == sum(sizes)
    for bad in ([1], [1, 0], [1, -5], [1, VALUE_BYTES + 1]):
        error = await refusal(service.put_start(ID, ["x", "y"], bad, 30))
        assert (error.code, error.field) == (Code.INVALID_ARGUMENT, "value_sizes")


async def test_removal(service, plane: DataPlane) -> None:
    written = await put(service, "a", "b", "c")
    started = await service.put_start(ID, ["w"], (), 30)
    await service.remove_values(ID, ["a", "never", "a", "w"])
    assert await get(service, "a", "b", "c") == ["", *written[1:]]
    await service.put_finish_listed(ID, started.session_id, uris(started.locations))
    assert await get(service, "w") == [""], "a finish does not bring it back"
    await service.trim_values(ID, 1, 0, 0)
    assert await get(service, "b", "c") == ["", ""]
    plane.make_due()
    await plane.duties()
    assert (await plane.recount()).used == 0


async def test_keys_with_equal_halves_are_told_apart(service, monkeypatch) -> None:
    """Two names whose block keys are one: the second is a miss, is never stored, and removes nothing."""

    def half(instance_number: int, keys) -> Named:
        known = named(instance_number, keys)
        return Named([4711] * len(keys), known.names)

    monkeypatch.setattr(values, "named", half)
    (place,) = await put(service, "first")
    assert await get(service, "first", "second") == [place, ""]
    started = await service.put_start(ID, ["second", "first"], (), 30)
    assert (started.mask, started.locations) == ([True, True], [])
    await service.remove_values(ID, ["second"])
    assert await get(service, "first") == [place]
    await service.remove_values(ID, ["first"])
    assert await get(service, "first") == [""]


async def test_instances_do_not_share_names(service, plane: DataPlane) -> None:
    plane.publish(3, value_instance("second", 0xBEEF))
    await plane.mirror.refresh()
    await put(service, "a")
    assert (await service.get_values("second", ["a"]))[1] == [False]
    assert named(1, ["a"]) != named(2, ["a"])


async def test_what_is_refused(service) -> None:
    for keys, field in (([], "keys"), (["a", ""], "keys"), (["ä" * 513], "keys")):
        for work in (
            service.get_values(ID, keys),
            service.put_start(ID, keys, (), 30),
            service.remove_values(ID, keys),
        ):
            error = await refusal(work)
            assert (error.code, error.field) == (Code.INVALID_ARGUMENT, field)
    assert (await refusal(service.get_values(ID, ["a"], 0))).field == "query_type"
    assert (await refusal(service.get_values(ID, ["a"], 2))).field == "query_type"
    assert (await refusal(service.get_values("nobody", ["a"]))).code is Code.INSTANCE_NOT_EXIST
    assert (await refusal(service.trim_values(ID, 0, 0, 0))).field == "strategy"
    too_many = await refusal(service.get_values(ID, ["a"] * 70_000))
    assert (too_many.code, too_many.field) == (Code.TOO_LARGE, "keys")


async def test_blocks_and_values_are_kept_apart(service) -> None:
    blocks = Blocks([1], ())
    for work in (
        service.get_cache_location(ID, 2, blocks, None, 0, ()),
        service.get_cache_location_len(ID, 2, blocks, 0),
        service.get_cache_locations_by_backend(ID, 1, blocks, (), ()),
        service.get_cache_meta(ID, blocks, None),
        service.start_write(ID, blocks, (), 30),
        service.finish_write(ID, "a" * 32, 1),
        service.remove_cache(ID, blocks, None),
        service.trim_cache(ID, 1, 0, 0),
        service.get_values("model-a", ["a"]),
        service.put_start("model-a", ["a"], (), 30),
        service.put_finish("model-a", "a" * 32, 1),
        service.put_finish_listed("model-a", "a" * 32, ()),
        service.remove_values("model-a", ["a"]),
        service.trim_values("model-a", 1, 0, 0),
    ):
        error = await refusal(work)
        assert (error.code, error.field) == (Code.INVALID_ARGUMENT, "instance_id")
    assert service.prefix_at_once(ID, bytes(8), 0) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), ("free text", None), ("[1]", None), ("{}", None), ('{"value_bytes": 5, "x": 1}', 5)]
    + [("[" * 100_000, None), ('{"a":' * 100_000, None), ('{"value_bytes":' + "9" * 5000 + "}", None)],
)
def test_user_data(text: str, expected: int | None) -> None:
    assert value_bytes_of(text) == expected


@pytest.mark.parametrize("value", ["0", "-1", "1.5", '"5"', "true", str(1 << 48)])
def test_bad_sizes_in_user_data(value: str) -> None:
    with pytest.raises(DomainError) as caught:
        value_bytes_of(f'{{"value_bytes": {value}}}')
    assert caught.value.field == "user_data.value_bytes"
