from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("storages", "0007_orphan_runs"),
    ]

    operations = [
        migrations.AddField(
            model_name="storage",
            name="drained_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name="storagehealthchange",
            name="event",
            field=models.CharField(
                choices=[
                    ("available", "available"),
                    ("unavailable", "unavailable"),
                    ("full", "full"),
                    ("has_room", "has_room"),
                    ("enabled", "enabled"),
                    ("disabled", "disabled"),
                    ("draining", "draining"),
                    ("drained", "drained"),
                    ("drain_ended", "drain_ended"),
                    ("leaving", "leaving"),
                    ("stays", "stays"),
                    ("abandoned", "abandoned"),
                    ("content_lost", "content_lost"),
                    ("segment_found", "segment_found"),
                    ("segment_unavailable", "segment_unavailable"),
                    ("segment_returned", "segment_returned"),
                    ("segment_lost", "segment_lost"),
                    ("segment_settled", "segment_settled"),
                ],
                max_length=24,
            ),
        ),
    ]
