"""Background jobs get the names that pages show; their intervals, and whether they are enabled, stay."""

from django.db import migrations

NAMES = {
    "Settle simulated backends": "Reconcile simulated backends",
    "Find cohorts whose parents run in a circle": "Find cohorts whose parents form a cycle",
}


def rename(names):
    def run(apps, schema_editor):
        tasks = apps.get_model("django_celery_beat", "PeriodicTask").objects
        for old, new in names.items():
            if not tasks.filter(name=new).exists():
                tasks.filter(name=old).update(name=new)

    return run


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0014_change_triggers"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [
        migrations.RunPython(rename(NAMES), rename({new: old for old, new in NAMES.items()})),
    ]
