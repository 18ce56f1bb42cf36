"""What the usage history costs where 1000 instances in 100 groups on 50 storages change in every second."""

from __future__ import annotations

import json
import random
import time
from statistics import median

import msgpack
import pytest
from django.db import connection

from apps.common.redis_client import figures_client
from apps.usage.models import Sample, SecondsChunk
from apps.usage.services import Sampler, growth_refresh, roll_up
from kvcm_platform.index import functions, keyspace, registry
from tests.apps.usage.conftest import NFS, Platform
from tests.support.valkey import ValkeyServer

from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

PART = "Usage history, 100 groups, 1000 instances, 50 storages, all busy"
GROUPS, INSTANCES, STORAGES, SECONDS = 100, 1000, 50, 130
FLUSHES = 20
"""Of facts in a second: four processes, five each."""


def test_cost(empty_valkey: ValkeyServer, settings, report: Report) -> None:
    settings.KVCM_REDIS_URL = empty_valkey.url
    platform = _platform(empty_valkey)
    sampler = Sampler(platform.clock)
    looks, flushes, points = [], [], 0
    for second in range(SECONDS):
        platform.now += 1
        _traffic(platform, second)
        mark = time.process_time()
        written = sampler.step(figures_client())
        (flushes if written else looks).append(time.process_time() - mark)
        points += written
    share = (sum(looks) + sum(flushes)) / SECONDS
    report.add(PART, "a look, once a second", median(looks) * 1000, "ms CPU", most_ms=max(looks) * 1000)
    report.add(PART, "with a flush, each 5 s", median(flushes) * 1000, "ms CPU", most_ms=max(flushes) * 1000)
    report.add(PART, "of one core", share * 100, "%", points=points)
    minutes = SECONDS // 60
    mark = time.process_time()
    made = roll_up(seconds=60)
    report.add(PART, "rollup of a minute", (time.process_time() - mark) / minutes * 1000, "ms CPU", **made)
    mark = time.process_time()
    trends = growth_refresh()
    report.add(PART, "trends, each minute", (time.process_time() - mark) * 1000, "ms CPU", trends=trends)
    chunks, samples = _bytes_of("usage_secondschunk"), _bytes_of("usage_sample")
    rows = SecondsChunk.objects.count(), Sample.objects.count()
    report.add(PART, "seconds, 15 min of them", chunks / SECONDS * 900 / 2**20, "MiB", rows=rows[0])
    report.add(PART, "minutes, a day of them", samples / minutes * 1440 / 2**20, "MiB", rows=rows[1])


def _platform(server: ValkeyServer) -> Platform:
    platform = Platform(server.client())
    registry.ensure_functions(platform.client)
    for number in range(1, STORAGES + 1):
        platform.storage(f"s{number}", number)
    for number in range(1, GROUPS + 1):
        platform.group(f"g{number}", number, capacity=1 << 40)
    for number in range(INSTANCES):
        group = number % GROUPS + 1
        platform.instance(f"i{number}", 1000 + number, f"g{group}", group)
    return platform


def _bytes_of(table: str) -> int:
    """A table with its indexes."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_total_relation_size(%s)", [table])
        else:
            tables = "SELECT name FROM sqlite_master WHERE tbl_name = %s"
            cursor.execute(f"SELECT sum(pgsize) FROM dbstat WHERE name IN ({tables})", [table])
        return int(cursor.fetchone()[0])


def _traffic(platform: Platform, second: int) -> None:
    """Every shard's vector is another one than before, and every instance was asked something."""
    pipeline = platform.client.pipeline(transaction=False)
    for number in range(INSTANCES):
        where = f"{NFS + number % STORAGES + 1}"
        size = (second + 1) * 4096 + number
        vector = msgpack.packb(
            [{f"{where}:s": size, f"{where}:w": 4096}, {f"{where}:s": second + 1, f"{where}:w": 1}]
        )
        base = keyspace.group(number % GROUPS + 1)
        pipeline.fcall(functions.name("kvcm_push"), 1, base, f"{1000 + number}:0", 1, second + 1, vector)
    chance = random.Random(second)
    for flush in range(FLUSHES):
        mine = [f"i{number}" for number in range(INSTANCES) if chance.random() < 0.2]
        data = {
            **{"process": f"p{flush % 4}", "at": 0, "window_ms": 200, "rpc": {}},
            "instances": {
                name: {"requests": 3, "requested_blocks": 300, "hit_blocks": 90, "written_blocks": 8}
                for name in mine
            },
            "latencies": {name: {"read": [0, 1, 2], "write": [0, 0, 0, 1]} for name in mine},
        }
        pipeline.execute_command(
            "XADD", keyspace.FACTS, "MAXLEN", "~", 20_000, f"{platform.now * 1000}-*", "d", json.dumps(data)
        )
    pipeline.execute()
