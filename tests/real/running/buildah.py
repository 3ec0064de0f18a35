"""Images built by buildah from the Dockerfile as it is shipped, on a bare Debian, in a store of their own."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.real.running.shipped import TOP, bare_root, tarball, tool


class Buildah:
    """Images in a store of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._policy = folder / "policy.json"
        self._policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
        self.mounted: list[str] = []
        self._base(bare_root())

    def __call__(self, *words: str | Path) -> str:
        store = ("--root", self._folder / "store", "--runroot", self._folder / "run", "--storage-driver", "overlay")
        command: list[str | Path] = ["buildah", *store, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._folder)
        assert done.returncode == 0, f"buildah {words[0]}: {done.stderr[-2000:]}"
        return done.stdout.strip()

    def _base(self, root: Path) -> None:
        """The image `localhost/base` of this root."""
        container = self("from", "scratch")
        self("add", "--quiet", container, root, "/")
        self("commit", "--quiet", "--signature-policy", self._policy, "--rm", container, "localhost/base")

    def context(self) -> Path:
        """What `buildah build` is given: the Dockerfile, and what `make dist` made."""
        context = self._folder / "context"
        if not context.exists():
            (context / "dist").mkdir(parents=True)
            shutil.copy(tarball(), context / "dist")
            shutil.copy(tool(), context / "dist")
            for part in ("Dockerfile", ".dockerignore", "configs"):
                (shutil.copytree if (TOP / part).is_dir() else shutil.copy)(TOP / part, context / part)
        return context

    def build(self, context: Path, name: str, *options: str) -> None:
        arguments = ("BASE=localhost/base", "BUILDER=localhost/base")
        given = [word for argument in arguments for word in ("--build-arg", argument)]
        self("build", "--format", "docker", "--isolation", "chroot", "--signature-policy", self._policy, "--quiet",
             *given, *options, "--tag", name, context)  # fmt: skip

    def with_file(self, name: str, file: Path, place: str, made: str) -> None:
        """The image `made`: that of `name`, and one file more."""
        container = self("from", "--signature-policy", self._policy, name)
        self("copy", "--quiet", "--chmod", "755", container, file, place)
        self("commit", "--quiet", "--signature-policy", self._policy, "--rm", container, made)

    def mount(self, name: str) -> Path:
        """Its root, to be looked at and to be run."""
        self.mounted.append(self("from", "--signature-policy", self._policy, name))
        return Path(self("mount", self.mounted[-1]))

    def packed(self, name: str) -> int:
        """Bytes that a registry would hold."""
        out = self._folder / f"packed-{name}"
        self("push", "--quiet", "--signature-policy", self._policy, name, f"oci:{out}")
        return sum(path.stat().st_size for path in (out / "blobs" / "sha256").iterdir())

    def inspect(self, name: str) -> Any:
        return json.loads(self("inspect", "--type", "image", name))["Docker"]["config"]

    def push(self, name: str, place: str) -> None:
        """To a registry that is spoken to without TLS, as `HOST:PORT/repository:tag`."""
        self("push", "--quiet", "--tls-verify=false", "--signature-policy", self._policy, name, f"docker://{place}")

    def remove(self) -> None:
        """Forget all of it."""
        for container in self.mounted:
            self("rm", container)
        shutil.rmtree(self._folder)
