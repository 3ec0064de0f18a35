"""The plan of jobs, one pure function: from the objects, the sessions and the news to what each status becomes.

`plan` reads as a table of phases (`phases.py`); each column of that table is a file. Nothing here waits, writes or
remembers: whoever loses everything but the API server's objects plans the same again.
"""

from modules.taskmanager.job.phases import registry_to_ask
from modules.taskmanager.job.round import Round, plan
from modules.taskmanager.job.view import Fleet, News, Plan, Start

__all__ = ["Fleet", "News", "Plan", "Round", "Start", "plan", "registry_to_ask"]
