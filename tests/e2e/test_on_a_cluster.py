"""The whole platform with its index on a Cluster: a master dies, its replica takes over, engines go on."""

from __future__ import annotations

import pytest

from kvcm_platform.client import BlockingMetadataClient, Connection, KvcmError, Registration
from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment
from kvcm_platform.index import blocking, keyspace, registry
from tests.support.objects import write_blocks
from tests.support.platform_process import PlatformProcess, short_data_dir, wait_for
from tests.support.valkey import valkey_server
from tests.support.valkey_cluster import ValkeyCluster, valkey_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

KEYS = list(range(500, 532))
INSTANCES = [f"model-{number}" for number in range(6)]


def registration(instance_id: str) -> Registration:
    return Registration(
        instance_group="default",
        instance_id=instance_id,
        block_size=16,
        location_spec_infos=(LocationSpecInfo("tp0", 4096),),
        model_deployment=ModelDeployment("Qwen3", "fp8", tp_size=1),
    )


def matched(client: BlockingMetadataClient, instance_id: str) -> int:
    try:
        return len(client.get_cache_location(instance_id, KEYS))
    except KvcmError:
        return -1


def master_of_an_instance(cluster: ValkeyCluster, instance_id: str) -> str:
    index = blocking.client(cluster.url)
    number = registry.read(index).instances[instance_id].number
    index.close()
    return keyspace.instance(number, 0)


def test_a_master_dies_under_the_platform() -> None:
    with (
        short_data_dir() as folder,
        valkey_cluster(3, 3) as cluster,
        valkey_server() as others,
    ):
        platform = PlatformProcess(
            ["manage.py", "up"],
            folder,
            KVCM_REDIS_URL=cluster.url,
            KVCM_BROKER_URL=others.url,
            KVCM_CHANNELS_URL=others.url,
            KVCM_METADATA_WORKERS="2",
        )
        try:
            platform.wait_until_ready(120)
            endpoint = f"127.0.0.1:{platform.port('KVCM_META_RPC_PORT')}"
            with BlockingMetadataClient(Connection(endpoint, timeout_seconds=5)) as client:
                for instance_id in INSTANCES:
                    client.register_instance(registration(instance_id))
                    write_blocks(client, instance_id, KEYS)
                    assert matched(client, instance_id) == len(KEYS)
                owner = cluster.owner(master_of_an_instance(cluster, INSTANCES[0]))
                owner.client.execute_command("WAIT", 1, 3000)
                owner.kill()
                # What is remembered may be told for 200 ms.
                wait_for(lambda: matched(client, INSTANCES[0]) == -1, 40, "the outage is told")
                for instance_id in INSTANCES:
                    # Refused, then hidden, and back once the duties looked at the objects.
                    wait_for(
                        lambda name=instance_id: matched(client, name) == len(KEYS),
                        60,
                        f"{instance_id} is served again",
                    )
                started = client.start_write(INSTANCES[0], [9001, 9002])
                client.finish_write(INSTANCES[0], started.session_id, 2)
                assert len(client.get_cache_location(INSTANCES[0], [9001, 9002])) == 2
        finally:
            platform.end()
