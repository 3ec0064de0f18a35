"""Section `control`: who may speak to this host's agent on the host itself, and where."""

from pathlib import Path

from msgspec import Struct

from beehive.config import Duration


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """Local control."""

    socket: str = ""
    """The UNIX socket of `beehive edge status|confirm|reject|logs`; empty: `control.sock` in `runtime.data`. A group
    needs one in a folder that it can enter, such as `/run/beehive/control.sock`."""
    group: str = ""
    """A group whose members may speak beside root; empty: nobody else."""
    http: str = ""
    """KubeEdge's own way to confirm, `POST /api/v1/taskupgrade/confirm-upgrade` (spec/kubeedge.md 7.6): a loopback
    address, such as `127.0.0.1:10550`. It knows nobody who asks: any user of this host can confirm. Empty: off."""
    patience: Duration = Duration(5)
    """How long one who connects may take to ask, and a module to answer; default 5s."""


def place_of(config: Config, data: Path) -> Path:
    """Where the socket is, for a process whose data lie in `data`."""
    return Path(config.socket) if config.socket else data / "control.sock"
