from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0018_webhook_installation")]

    operations = [
        migrations.AddField("clusterstate", "cluster_lease", models.TextField(blank=True)),
        migrations.AddField("clusterstate", "cluster_lease_message", models.TextField(blank=True)),
        migrations.AddField("clusterstate", "cluster_lease_since", models.DateTimeField(null=True)),
    ]
