"""Faults that DebugService injects into the data plane of the whole cluster."""

from __future__ import annotations

from dataclasses import asdict

from django.db import transaction

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.redis_client import index_client
from kvcm_platform.core.errors import invalid
from kvcm_platform.core.faults import Fault, check_api
from kvcm_platform.index import faults


@transaction.atomic
def fault_inject(*, acting: Actor, api: str, fault: Fault) -> None:
    """Make calls of `api` fail, in place of the fault it has. Raises INVALID_ARGUMENT for an unknown API."""
    acting.require_all_groups()
    check_api(api)
    audit_record(acting=acting, action="fault.inject", kind="fault", name=api, after=asdict(fault))
    transaction.on_commit(lambda: faults.inject(index_client(), api, fault))


@transaction.atomic
def fault_remove(*, acting: Actor, api: str) -> None:
    """Raises INVALID_ARGUMENT for an unknown API and for one that has no fault."""
    acting.require_all_groups()
    check_api(api)
    if not faults.has(index_client(), api):
        raise invalid("api_name", f"{api} has no fault")
    audit_record(acting=acting, action="fault.remove", kind="fault", name=api)
    transaction.on_commit(lambda: faults.remove(index_client(), api))


@transaction.atomic
def faults_clear(*, acting: Actor) -> None:
    acting.require_all_groups()
    audit_record(acting=acting, action="fault.clear", kind="fault", name="")
    transaction.on_commit(lambda: faults.clear(index_client()))
