"""Changes of storages. Each is one transaction of row, audit entry and registry version."""

from .add import storage_add
from .bulk import ItemReport, storages_change
from .candidates import candidates_set
from .checks import CheckedStorage, checks_note
from .content import content_checks_ask
from .departure import departures_settle, storage_abandon
from .history import history_prune
from .orphan_search import orphan_run_carry_out
from .orphans import orphan_runs_resume, orphans_cancel, orphans_search
from .remove import storage_remove, storage_restore
from .rounds import storages_check
from .tidying import storages_tidy
from .trial import storage_try, storage_try_saved
from .update import storage_set_enabled, storage_update

__all__ = [
    "CheckedStorage",
    "ItemReport",
    "candidates_set",
    "checks_note",
    "content_checks_ask",
    "departures_settle",
    "history_prune",
    "orphan_run_carry_out",
    "orphan_runs_resume",
    "orphans_cancel",
    "orphans_search",
    "storage_abandon",
    "storage_add",
    "storage_remove",
    "storage_restore",
    "storage_set_enabled",
    "storage_try",
    "storage_try_saved",
    "storage_update",
    "storages_change",
    "storages_check",
    "storages_tidy",
]
