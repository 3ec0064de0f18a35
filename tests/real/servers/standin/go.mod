module beehive.example/tests/real/servers/standin

go 1.24
