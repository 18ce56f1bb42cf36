"""Metadata processes as they are deployed, without the control plane, for tests of the client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kvcm_platform.client import BlockingMetadataClient, Connection, Registration, RetryPolicy
from kvcm_platform.core.registry import Entry, InstanceEntry, Quota
from kvcm_platform.index import registry
from tests.support.data_plane import UNLIMITED, group, storage
from tests.support.platform_process import free_ports
from tests.support.valkey import ValkeyServer, valkey_server


@dataclass
class MetadataProcesses:
    directory: Path
    valkey: ValkeyServer
    rpc_port: int
    http_port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    version: int = 0

    @classmethod
    @contextmanager
    def start(cls, directory: Path, *, count: int) -> Iterator[MetadataProcesses]:
        with valkey_server() as server:
            running = cls(directory, server, *free_ports(2))
            client = server.client()
            registry.ensure_functions(client)
            client.close()
            running.publish(storage(directory / "nfs"), group())
            try:
                for _ in range(count):
                    running.spawn()
                running.wait_until_ready()
                yield running
            finally:
                for process in running.processes:
                    process.kill()
                    process.wait()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.rpc_port}"

    @property
    def blocks_root(self) -> Path:
        return self.directory / "nfs"

    def spawn(self) -> None:
        """One more process on the shared port."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KVCM_")}
        environment = {
            **clean,
            "KVCM_REDIS_URL": self.valkey.url,
            "KVCM_META_RPC_PORT": str(self.rpc_port),
            "KVCM_META_HTTP_PORT": str(self.http_port),
            "KVCM_DATA_DIR": str(self.directory / "var"),
        }
        with (self.directory / f"metadata-{len(self.processes)}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "kvcm_platform.metadata_service"],
                    env=environment,
                    stdout=log,
                    stderr=log,
                )
            )

    def kill(self, number: int) -> None:
        """kill -9"""
        self.processes[number].kill()
        self.processes[number].wait()

    def wait_until_ready(self) -> None:
        patient = RetryPolicy(attempts=1000, first_delay_seconds=0.05, max_delay_seconds=0.05)
        with BlockingMetadataClient(
            Connection(self.endpoint, timeout_seconds=30, retry=patient, wait_for_ready=True)
        ) as client:
            client.get_cluster_info()

    def publish(self, *entries: Entry) -> None:
        """What the control plane would do after a change."""
        self.version += 1
        client = self.valkey.client()
        registry.publish(client, version=self.version, changed=entries)
        client.close()

    def publish_instance(self, registration: Registration, number: int = 0xABC) -> None:
        self.publish(
            InstanceEntry(
                instance_id=registration.instance_id,
                number=number,
                group=registration.instance_group,
                group_number=1,
                block_size=registration.block_size,
                location_spec_infos=registration.location_spec_infos,
                location_spec_groups=registration.location_spec_groups,
                model_deployment=registration.model_deployment,
            )
        )

    def limit(self, capacity_bytes: int = UNLIMITED) -> None:
        self.publish(group(quota=Quota(capacity_bytes)))
