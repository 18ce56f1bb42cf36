"""`manage.py recount [--json] [--repair]`: do kept usage and taken memory equal a count of all blocks?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from redis.exceptions import RedisError

from apps.cache_index.services import index_recount
from kvcm_platform.core.errors import DomainError
from kvcm_platform.index.pool_recount import SegmentCount
from kvcm_platform.index.recount import StillChanging


class Command(BaseCommand):
    help = "Counts all blocks; compares with usage and with the taken memory of pools; exit code 1 on drift."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--json",
            action="store_true",
            help="print one JSON object a group, then one a segment of a memory pool",
        )
        parser.add_argument(
            "--repair",
            action="store_true",
            help="set usage to the count, and give back memory that nothing has",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            count = index_recount(
                settings.KVCM_REDIS_URL,
                repair=options["repair"],
                rocksdb_folder=settings.KVCM_ROCKSDB_FOLDER,
            )
            counted = asyncio.run(count)
        except StillChanging as error:
            raise CommandError(
                f"instance {error} changes while it is counted; stop its traffic", returncode=2
            ) from error
        except DomainError as error:
            raise CommandError(f"{error}; stop the metadata process first", returncode=2) from error
        except RedisError as error:
            raise CommandError(f"the index cannot be reached: {error}", returncode=2) from error
        for group in counted.groups:
            if options["json"]:
                row = {
                    "group": group.name,
                    "used": group.used,
                    "recounted": group.recounted,
                    "reserved": group.reserved,
                    "drift": group.drift,
                }
                self.stdout.write(json.dumps(row, sort_keys=True))
            else:
                verdict = "DRIFT" if group.has_drift else "ok"
                self.stdout.write(f"{group.name}: used {group.used}, counted {group.recounted}: {verdict}")
                for where, amounts in group.drift.items():
                    self.stdout.write(
                        f"  {where}: {amounts['bytes']:+d} bytes, {amounts['blocks']:+d} blocks"
                    )
        for segment in counted.segments:
            self._show_segment(segment, is_json=options["json"])
        if counted.has_drift:
            raise SystemExit(1)

    def _show_segment(self, count: SegmentCount, *, is_json: bool) -> None:
        drift = {"leaked": len(count.leaked), "missing": len(count.missing)}
        figures = {"taken": count.taken, "referred": count.referred, **drift}
        if is_json:
            row = {
                "storage": count.storage,
                "node": count.segment.node_id,
                **figures,
                "drift": {name: ranges for name, ranges in drift.items() if ranges},
            }
            self.stdout.write(json.dumps(row, sort_keys=True))
            return
        verdict = "DRIFT" if count.has_drift else "ok"
        text = ", ".join(f"{name} {value}" for name, value in figures.items())
        self.stdout.write(f"{count.storage}, memory of {count.segment.node_id}: {text} ranges: {verdict}")
