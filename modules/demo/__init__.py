"""The demonstration: a small cluster, edge hosts as processes, and scenes played on them. Off the bus; no module imports it."""
