"""The modules: one folder each, talking only through the messages in `beehive.messages`."""
