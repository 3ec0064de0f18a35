"""The demonstration: a small cluster, hosts as processes, scenes played on them. Off the bus; no module imports it."""
