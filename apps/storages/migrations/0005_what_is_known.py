"""Fills what earlier versions did not keep: what a turn was about, since when a drain lasts, why one is full."""

from django.db import migrations
from django.db.models import F
from django.utils import timezone


def tell_what_is_known(apps, schema_editor):
    changes = apps.get_model("storages", "StorageHealthChange").objects
    changes.filter(is_available=False).update(event="unavailable")
    storages = apps.get_model("storages", "Storage").objects
    storages.filter(is_draining=True).update(departing_since=timezone.now())
    storages.filter(is_full=True).update(full_reason=F("health_message"))


class Migration(migrations.Migration):
    dependencies = [
        ("storages", "0004_health_history"),
    ]

    operations = [
        migrations.RunPython(tell_what_is_known, migrations.RunPython.noop),
    ]
