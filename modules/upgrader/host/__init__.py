"""The parts of a host: its places, files, services and programs, and who holds it."""
