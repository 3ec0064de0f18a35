"""What the operator's commands do, off the bus: an API client, the plan of a job, tables, the live view.

No module imports it. It may import the modules' pure rules and shapes, never their shells.
"""
