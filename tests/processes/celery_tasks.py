"""A Celery application: governed before its pool is forked."""

import json

import celery
import celery.platforms
from governed_work import FOLDER, work

# Celery has the kernel kill each child when its parent ends. What ends is the thread that forked
# it: at a shutdown children are killed that may hold the lock of the queue, and the worker hangs.
celery.platforms.set_pdeathsig = lambda name: None

app = celery.Celery("celery_tasks", include=["celery_tasks"])
app.conf.update(json.loads((FOLDER / "settings.json").read_text()))
app.task(name="work")(work)
