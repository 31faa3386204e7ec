"""A Celery application: governed before its pool is forked."""

import json

import celery
from governed_work import FOLDER, work

app = celery.Celery("celery_tasks", include=["celery_tasks"])
app.conf.update(json.loads((FOLDER / "settings.json").read_text()))
app.task(name="work")(work)
