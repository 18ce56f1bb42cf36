"""Changes of groups and instances. Each is one transaction of row, audit entry and registry version."""

from .group import group_create, group_remove, group_update
from .register import Registered, instance_register
from .remove import instance_remove, removed_instances_hand_over
from .seen import instances_note_seen

__all__ = [
    "Registered",
    "group_create",
    "group_remove",
    "group_update",
    "instance_register",
    "instance_remove",
    "instances_note_seen",
    "removed_instances_hand_over",
]
