from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("storages", "0008_drained_at"),
    ]

    operations = [
        migrations.AddField(
            model_name="storage",
            name="dropped_objects",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="storage",
            name="dropped_objects_checked",
            field=models.BigIntegerField(null=True),
        ),
    ]
