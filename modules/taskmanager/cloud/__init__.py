"""The shell of the planner: what it knows, what it writes, whom it tells. It decides nothing; the rules are outside.

`module` is the loop. `books` holds what was read; `writing`, `finalizing` and `cordons` begin writes, `background`
waits for their answers and `notes` are those answers; `telling` is the only place that speaks to nodes, `listening`
hears them.
"""

from modules.taskmanager.cloud.module import CloudTaskManager

__all__ = ["CloudTaskManager"]
