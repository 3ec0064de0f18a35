"""System libraries that the bundle takes with it, for the inventory: what they are and under which licence."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_KNOWN = {
    "libbz2": ("bzip2", "bzip2-1.0.6"),
    "libcrypto": ("openssl", "Apache-2.0"),
    "libexpat": ("expat", "MIT"),
    "libffi": ("libffi", "MIT"),
    "libgcc_s": ("gcc-runtime", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "liblzma": ("liblzma", "LicenseRef-public-domain"),
    "libmpdec": ("mpdecimal", "BSD-2-Clause"),
    "libpython3": ("python", "PSF-2.0"),
    "libsqlite3": ("sqlite", "blessing"),
    "libssl": ("openssl", "Apache-2.0"),
    "libstdc++": ("gcc-runtime", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "libuuid": ("libuuid", "BSD-3-Clause"),
    "libz": ("zlib", "Zlib"),
}
"""Library -> the project that it is of, and its licence. The two of GCC may go with any program, by their exception."""


def libraries(bundle: Path) -> list[dict[str, Any]]:
    """Those in the bundle, once for each project, in the inventory's terms. Raises SystemExit naming unknown ones."""
    found = sorted({path.name for path in bundle.rglob("lib*.so*")})
    strange = [name for name in found if _stem(name) not in _KNOWN]
    if strange:
        sys.exit(f"{', '.join(strange)}: what is it, and may it be shipped? Say so in shipping/native.py.")
    projects: dict[str, dict[str, Any]] = {}
    for name in found:
        project, licence = _KNOWN[_stem(name)]
        if project != "python":
            about = {"name": project, "version": _version(name), "license": licence, "classifiers": [], "texts": []}
            projects.setdefault(project, {**about, "kind": "generic"})
    return list(projects.values())


def _stem(name: str) -> str:
    stem = name.partition(".so")[0]
    return "libpython3" if stem.startswith("libpython3.") else stem


def _version(name: str) -> str:
    """As this machine's packages say; empty where they can't be asked."""
    query = shutil.which("dpkg-query")
    for place in _places(name) if query else ():
        owner = _said(query or "", "-S", str(place)).partition(": ")[0]
        if owner:
            return _said(query or "", "-W", "-f", "${source:Upstream-Version}", owner.split(",")[0])
    return ""


def _places(name: str) -> Iterator[Path]:
    for folder in ("/usr/lib", "/lib"):
        for place in sorted(Path(folder).glob(f"*-linux-gnu/{name}")):
            yield place
            yield place.resolve()


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
