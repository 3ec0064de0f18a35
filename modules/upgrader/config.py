"""Section `upgrader`: where this host keeps its things, and what its owner allows. The tool reads the same section."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from beehive.config import Duration


class Target(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is upgraded. All paths lie below `upgrader.root`. Default: EdgeCore as KubeEdge lays it out."""

    executable: str = ""
    """The program that the service starts, and what is swapped unless `link` is given. Empty: the one that its unit
    starts, if that is called `edgecore`, else `/usr/local/bin/edgecore`."""
    runs_from: tuple[str, ...] = ()
    """Patterns of paths from which the running process may run instead, for programs that unpack themselves, such as
    `/var/lib/rancher/k3s/data/*/bin/k3s`. Then its own answer to `--version` says which one it is."""
    link: str = ""
    """A symlink to the folder that is installed, such as `/usr/local/lib/beehive/current`: then the program is that
    whole folder, `executable` lies below the link, the other versions' folders beside it. Empty: it is one file."""
    tool_link: str = ""
    """With `link`: a symlink beside it that follows when an upgrade has succeeded. The tool's units start the tool
    through it, so that a new version that can't even start is never the one to take itself back."""
    image_path: str = "/usr/local/bin/edgecore"
    """Where the program, or with `link` its folder, lies in the image."""
    config: str = "/etc/kubeedge/config/edgecore.yaml"
    """Its configuration file; saved, and restored by a rollback only. Empty: it has none."""
    database: str = "/var/lib/kubeedge/edgecore.db"
    """Its database (SQLite or any file); saved, and restored by a rollback only. Empty: it has none."""
    service: str = "edgecore"
    """Name of its service, without `.service`."""
    start: tuple[str, ...] = ("{executable}", "--config", "{config}")
    """How the process manager starts it; `{executable}`, `{config}`, `{database}` and `{root}` are replaced.
    systemd does not read this: there the unit says it."""
    control: str = ""
    """Where the target is Beehive itself: its own socket (`control.socket`). Then the running process is asked there,
    and must answer with its version and a nonce, at the beginning of the soak and at its end. Empty: `--version`."""
    format: Literal["elf", "any"] = "elf"
    """`elf`: the program must be an executable of this machine's architecture; `any`: scripts are good too."""


class Mirror(Struct, frozen=True, kw_only=True, rename="camel"):
    """A registry that holds copies of images."""

    host: str
    """`host[:port]`."""
    prefix: str = ""
    """Put before the repository, such as `dockerhub-proxy/`."""
    only_for: str = ""
    """Only for images of this registry, such as `docker.io`; empty: for all."""


class Images(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where images come from, in this order: layout, archive, mirrors, the registry that the image names."""

    layout: str = ""
    """A directory in the OCI image layout."""
    archive: str = ""
    """A tar file: an OCI layout or what `docker save` writes."""
    mirrors: tuple[Mirror, ...] = ()
    """Asked in order, before the image's own registry."""
    registry: bool = True
    """Ask the registry that the image names."""
    insecure_hosts: tuple[str, ...] = ()
    """`host[:port]` of registries that are spoken to without TLS."""
    ca_file: str = ""
    """PEM file with certificate authorities that are trusted beside the system's."""
    allow: tuple[str, ...] = ("docker.io/kubeedge/installation-package",)
    """Repositories from which a job may install here; `*` is anything within one part, `**` any number of parts."""
    require_digest: bool = False
    """Install only images whose digest the job pins."""
    attempts: int = 5
    """How often in a row a download may fail without a new byte; default 5."""
    connect_timeout: Duration = Duration(10)
    """Default 10s."""
    read_timeout: Duration = Duration(30)
    """Silence after which a transfer counts as cut; default 30s."""


class Limits(Struct, frozen=True, kw_only=True, rename="camel"):
    """When a host is too busy or too full to be upgraded; counts if the job asks (`checkItems`), but for `reserve`."""

    cpu_percent: float = 80
    """Of all processors, over 0.1 s; default 80."""
    mem_percent: float = 80
    """Of the memory, without what can be freed; default 80."""
    disk_percent: float = 80
    """Of each file system in `diskPaths`; default 80."""
    disk_paths: tuple[str, ...] = ("/",)
    """Below `upgrader.root`."""
    reserve_bytes: int = 64 * 1024 * 1024
    """Must stay free beside image, backup and program, whatever the job asks; default 64 MiB."""


class Provider(Struct, frozen=True, kw_only=True, rename="camel"):
    """A command that replaces the program; what is around it (backup, stop, start, verification, rollback) is ours."""

    run: tuple[str, ...]
    """The command, one word each, never a shell's line. `{version}`, `{image}`, `{keadm}` and `{program}` (as extracted
    from the image), `{executable}`, `{config}` and `{root}` are replaced."""
    image: bool = True
    """Fetch and verify the job's image before; `false`: the command brings the program itself."""
    timeout: Duration = Duration(600)
    """How long it may take, then it is ended; default 10m."""


class Cloud(Struct, frozen=True, kw_only=True, rename="camel"):
    """Whom the tool tells its verdict, beside its own record and the report file."""

    identity: str = "/etc/beehive/pki"
    """Below `upgrader.root`: the directory that `edgehub.identity` names. Where none is, nobody is told."""
    url: str = ""
    """URL of the hub's HTTPS port; empty for where this host joined."""
    ca_file: str = ""
    """File with more CAs that may have signed the hub's certificate, PEM; empty for the identity's CA alone."""
    patience: Duration = Duration(60)
    """How long it is tried, after the verdict stands and everything runs; default 60s."""


class Config(Struct, frozen=True, kw_only=True, rename="camel"):
    """The section `upgrader`."""

    root: str = "/"
    """Put before every path of the host: a directory can be a host (demo, tests)."""
    state: str = "/var/lib/beehive/upgrader"
    """Below `root`: requests to the tool, the tool's records, the owner's words, what the process manager knows."""
    logs: str = "/var/log/kubeedge"
    """Below `root`: the tool's log, and with the process manager the services'."""
    target: Target = Target()
    """What is upgraded."""
    providers: dict[str, Provider] = {}
    """What a job's `upgradeTool` may name beside `keadm` (our own tool) and `image-keadm` (the image's own keadm)."""
    service_manager: Literal["systemd", "process"] = "systemd"
    """`process`: no systemd; services are started by a small parent process of ours each."""
    tool: tuple[str, ...] = ()
    """How the process manager starts the tool; empty: this installation's own `keadm`."""
    images: Images = Images()
    """Image sources and the owner's policy."""
    cloud: Cloud = Cloud()
    """Whom the tool tells."""
    limits: Limits = Limits()
    """Thresholds of the check."""
    soak: Duration = Duration(30)
    """How long the new version must stay up without a restart; default 30s."""
    start_timeout: Duration = Duration(30)
    """How long a service may take to start; default 30s."""
    stop_timeout: Duration = Duration(90)
    """How long a service may take to stop, then it is killed; default 90s."""
    version_timeout: Duration = Duration(10)
    """How long a program may take to answer `--version`; default 10s."""


def to_json(config: Config) -> bytes:
    """For a request file, which the tool reads."""
    return msgspec.json.encode(config, enc_hook=float)


def from_json(data: bytes) -> Config:
    """The inverse. Raises msgspec.ValidationError or msgspec.DecodeError."""
    return msgspec.json.decode(data, type=Config, dec_hook=_duration)


def _duration(kind: type, value: Any) -> Any:
    return kind(value)
