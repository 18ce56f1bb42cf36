"""Changes of groups and instances. Each is one transaction of row, audit entry and registry version."""

from .group import group_create, group_remove, group_update
from .register import Registered, instance_register
from .remove import instance_remove

__all__ = [
    "Registered",
    "group_create",
    "group_remove",
    "group_update",
    "instance_register",
    "instance_remove",
]
