"""Which storages a group writes to, and in which order."""

from __future__ import annotations

from django.db import models


class StorageCandidate(models.Model):
    """One place in a group's order of storages. Names, not references: the storage may come later."""

    group_name = models.CharField(max_length=128, db_index=True)
    storage_name = models.CharField(max_length=128, db_index=True)
    position = models.PositiveIntegerField()

    class Meta:
        ordering = ["group_name", "position"]
        constraints = [
            models.UniqueConstraint(fields=["group_name", "storage_name"], name="candidate_is_named_once"),
            models.UniqueConstraint(fields=["group_name", "position"], name="candidate_has_its_place"),
        ]

    def __str__(self) -> str:
        return f"{self.group_name}[{self.position}] = {self.storage_name}"
