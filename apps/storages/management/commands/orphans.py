"""`manage.py orphans STORAGE [--delete] [--json]`: what does nothing refer to on a storage?"""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.common.actor import Actor
from apps.storages.choices import OrphanRunState
from apps.storages.models import OrphanRun
from apps.storages.services import orphan_run_carry_out, orphans_search
from kvcm_platform.core.errors import DomainError
from kvcm_platform.duties.orphan_order import MIN_AGE_SECONDS

SHOWN = 20


class Command(BaseCommand):
    help = "Searches a storage for objects that nothing refers to; deletes them only with --delete."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("storage")
        parser.add_argument("--delete", action="store_true", help="delete what is found")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--min-age",
            type=int,
            default=MIN_AGE_SECONDS,
            metavar="SECONDS",
            help=f"leave what was written later than so long ago (at least {MIN_AGE_SECONDS})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run = orphans_search(
                acting=Actor.system("orphans"),
                name=options["storage"],
                is_dry=not options["delete"],
                min_age_seconds=options["min_age"],
                is_queued=False,
            )
        except DomainError as error:
            raise CommandError(str(error), returncode=2) from error
        ended = orphan_run_carry_out(run_id=run.pk, redis_url=settings.KVCM_REDIS_URL)
        if ended is None:
            raise CommandError("another storage is being searched; it goes on later, by itself", returncode=2)
        if options["json"]:
            row = {"storage": options["storage"], "state": ended.state, "reason": ended.reason}
            row |= {"dry_run": ended.is_dry, **ended.figures, "samples": ended.samples}
            self.stdout.write(json.dumps(row, sort_keys=True))
        else:
            self._show(ended)
        if ended.state != OrphanRunState.DONE.value:
            raise CommandError(f"the search {ended.state}: {ended.reason}", returncode=2)

    def _show(self, run: OrphanRun) -> None:
        figures = run.figures
        for sample in run.samples[:SHOWN]:
            self.stdout.write(f"  {sample['name']} ({sample['size_bytes']} bytes)")
        if len(run.samples) > SHOWN:
            self.stdout.write(f"  and {figures['orphans'] - SHOWN} more")
        self.stdout.write(
            f"{run.storage.name}: {figures['looked_at']} objects, {figures['orphans']} orphans"
            f" ({figures['orphan_bytes']} bytes), {figures['listed']} blocks on the list of orphans"
            f" ({figures['listed_bytes']} bytes), {figures['young']} too young, {figures['foreign']} not ours"
        )
        if not run.is_dry:
            self.stdout.write(
                f"deleted {figures['deleted']} ({figures['deleted_bytes']} bytes) and"
                f" {figures['listed_deleted']} from the list, {figures['failed']} failed"
            )
            for reason, count in figures["reasons"].items():
                self.stdout.write(f"  {count} times: {reason}")
