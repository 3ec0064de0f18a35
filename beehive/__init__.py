"""The kernel: a typed in-process message bus, its supervision and its eyes.

What belongs here: everything that a module stands on and that would be the same in a program about something else.
What does not: anything that knows Kubernetes, etcd or upgrades. Those words live in `beehive.messages` (what modules
say to each other) and `beehive.api` (the shapes of Kubernetes objects), which no kernel file imports.
"""
