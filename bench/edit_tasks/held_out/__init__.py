"""Tasks for the honest figure: on files of their own, and never tuned on."""

from __future__ import annotations

from bench.edit_tasks.held_out import c_family, python, typescript
from bench.edit_tasks.task import Task

__all__ = ["TASKS"]

TASKS: tuple[Task, ...] = (*python.TASKS, *typescript.TASKS, *c_family.TASKS)
