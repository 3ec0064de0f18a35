"""Real image registry: Debian's docker-registry on loopback, filled by skopeo."""

import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import trustme

from tests.real.running.images import Files, OciLayout
from tests.real.running.processes import Daemon, StartError, with_free_ports

USER, PASSWORD = "bee", "hive"
# bcrypt of the password above, the one form that docker-registry reads.
_HTPASSWD = "bee:$2b$04$mbe35xTsFIUPZc1ndiRv2e.vg5TEYH/nd1GrcXeHotnGNeZVTDGRK\n"
_CONFIG = """\
version: 0.1
log: {{level: warn, accesslog: {{disabled: false}}}}
storage: {{filesystem: {{rootdirectory: {folder}/images}}, delete: {{enabled: true}}, redirect: {{disable: true}}}}
http:
  addr: 127.0.0.1:{port}
  secret: test
{more}"""


class Registry:
    """A registry at ``address`` (``127.0.0.1:PORT``), over plain HTTP.

    A ``secure`` one has TLS by the CA in ``ca_file`` and basic authentication by ``USER`` and ``PASSWORD``.
    ``process.log`` names every request that it got.
    """

    def __init__(self, folder: Path, port: int, *, secure: bool) -> None:
        self.address = f"127.0.0.1:{port}"
        self.secure = secure
        self.ca_file = folder / "ca.crt"
        self._folder = folder
        more = _secrets(folder) if secure else ""
        (folder / "config.yml").write_text(_CONFIG.format(folder=folder, port=port, more=more))
        self.process = Daemon("docker-registry", [_program("docker-registry"), "serve", folder / "config.yml"], folder)

    @classmethod
    def started(cls, folder: Path, *, secure: bool = False) -> "Registry":
        """A new empty registry, ready."""

        def start(ports: list[int]) -> Registry:
            registry = cls(folder, ports[0], secure=secure)
            registry.start()
            return registry

        return with_free_ports(start, 1)

    def start(self) -> None:
        """Starts it, also again after ``process.stop()``, at the same address with the same images."""
        self.process.start(self._ready)

    def _ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.ca_file)) if self.secure else None
        try:
            with urllib.request.urlopen(f"http{'s' * self.secure}://{self.address}/v2/", timeout=2, context=context):
                return True
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return refusal.code == 401

    def push(self, repository: str, tag: str, layers: Sequence[Files]) -> str:
        """Pushes an image made of ``layers`` as ``ADDRESS/repository:tag``; its manifest's digest."""
        layout = OciLayout(self._folder / "layout" / repository)
        digest = layout.add(tag, layers)
        self.copy(f"oci:{layout.folder}:{tag}", repository, tag)
        return digest

    def push_layout(self, layout: OciLayout, repository: str, tag: str) -> None:
        """Pushes what a layout holds under ``tag``, an index with all its images."""
        self.copy(f"oci:{layout.folder}:{tag}", repository, tag)

    def copy(self, source: str, repository: str, tag: str) -> None:
        """Copies from any place that skopeo knows into this registry."""
        self.skopeo(
            "copy",
            "--all",
            "--preserve-digests",
            *self._login("dest"),
            source,
            f"docker://{self.address}/{repository}:{tag}",
        )

    def pull(self, repository: str, tag: str, folder: Path) -> None:
        """Copies an image out of this registry into an OCI layout in ``folder``."""
        place = f"docker://{self.address}/{repository}:{tag}"
        self.skopeo("copy", "--all", "--preserve-digests", *self._login("src"), place, f"oci:{folder}:{tag}")

    def _login(self, side: str) -> list[str]:
        who = [f"--{side}-creds={USER}:{PASSWORD}"] if self.secure else []
        return [f"--{side}-tls-verify=false", *who]

    def skopeo(self, *arguments: str) -> str:
        """What skopeo prints; ``AssertionError`` with its own words if it fails."""
        command = [_program("skopeo"), "--insecure-policy", f"--tmpdir={self._folder}", *arguments]
        environment = {"HOME": str(self._folder), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(self._folder)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=90)
        assert done.returncode == 0, f"skopeo {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout

    def remove(self) -> None:
        """Ends it and deletes its images."""
        self.process.stop()
        shutil.rmtree(self._folder / "images", ignore_errors=True)
        shutil.rmtree(self._folder / "layout", ignore_errors=True)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise StartError(f"{name} is not installed: run `make test` as root once, or `apt-get install {name}`.")
    return found


def _secrets(folder: Path) -> str:
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "serving.pem"))
    (folder / "htpasswd").write_text(_HTPASSWD)
    tls = f"  tls: {{certificate: {folder}/serving.pem, key: {folder}/serving.pem}}\n"
    return f"{tls}auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}\n"
