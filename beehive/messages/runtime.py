"""Topic `runtime`, owned by the kernel: anybody may subscribe, nobody else can say it."""

from beehive.message import Draining, Lagged, ModuleFailed

__all__ = ["Draining", "Lagged", "ModuleFailed"]
