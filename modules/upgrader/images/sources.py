"""Where images may come from, in the order in which they are tried, and how registries may be spoken to.

All of it is configuration of the host; nothing here ever comes from a job.
"""

from pathlib import Path

import msgspec


class RegistrySource(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="registry", forbid_unknown_fields=True
):
    """A registry that speaks the OCI distribution protocol: the image's own, or a mirror of it."""

    host: str = ""
    """`host[:port]` of a mirror; empty: the registry that the image names."""
    prefix: str = ""
    """Put before the repository on this mirror, such as `dockerhub-proxy/`."""
    mirrors: str = ""
    """Only for images of this registry, such as `docker.io`; empty: for all."""


class LayoutSource(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="layout", forbid_unknown_fields=True
):
    """A local directory in the OCI image layout."""

    directory: Path


class ArchiveSource(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="archive", forbid_unknown_fields=True
):
    """A local tar file: an OCI layout (`skopeo copy … oci-archive:`) or what `docker save` writes."""

    file: Path


Source = RegistrySource | LayoutSource | ArchiveSource


class Credentials(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who we are at one registry. Sent only there, and to the token server that it names, and only when asked."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r}, password=…)"


class Access(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How registries are reached."""

    plain_http: tuple[str, ...] = ()
    """`host[:port]` of those that are spoken to without TLS; every other one must prove itself by a certificate."""
    ca_file: Path | None = None
    """PEM file with certificate authorities that are trusted beside the system's."""
    credentials: dict[str, Credentials] = {}
    """By `host[:port]`."""
    connect_timeout: float = 10.0
    """Seconds."""
    read_timeout: float = 30.0
    """Seconds of silence after which a transfer counts as cut."""
    attempts: int = 5
    """How often in a row a transfer may fail without a single new byte."""
    pause: float = 0.5
    """Seconds before the second attempt, doubled for each further one without progress."""
