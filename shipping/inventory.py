"""The software bill of materials (CycloneDX 1.6), and which licences may be shipped."""

import re
import sys
import uuid
from collections.abc import Sequence
from typing import Any

NOT_SHIPPED = frozenset({
    "pip", "setuptools", "pyinstaller", "pyinstaller-hooks-contrib", "altgraph", "packaging", "hatchling", "editables",
    "pathspec", "pluggy", "tomlkit", "trove-classifiers", "beehive",
})  # fmt: skip
"""What builds the rest and is in no bundle; PyInstaller's bootloader is, under its exception to the GPL."""

_OF_CLASSIFIER = {
    "MIT License": "MIT", "Apache Software License": "Apache-2.0", "BSD License": "BSD-3-Clause",
    "Python Software Foundation License": "PSF-2.0", "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "ISC License (ISCL)": "ISC",
}  # fmt: skip
_OF_TEXT = (("MIT License", "MIT"), ("Apache License Version 2.0", "Apache-2.0"))
"""How a licence's own text begins, for packages that tell nothing else."""
_FORBIDDEN = ("AGPL", "GPL", "SSPL", "BUSL")
_EXCEPTED = re.compile(r"\S+ WITH (GCC-exception-3\.1|Bootloader-exception)(?![\w.-])")
"""Such a work may go with programs of any licence: GCC's runtime, PyInstaller's bootloader."""


def inventory(version: str, packages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The document; the same for the same packages. Raises SystemExit naming packages that may not be shipped."""
    shipped = sorted((one for one in packages if one["name"].lower() not in NOT_SHIPPED), key=lambda one: one["name"])
    wrong = [
        f"{one['name']} ({licence(one) or 'no licence told'})" for one in shipped if not may_be_shipped(licence(one))
    ]
    if wrong:
        sys.exit(f"These may not be shipped: {', '.join(wrong)}.")
    tools = {one["name"].lower(): one["version"] for one in packages}
    parts = [_component(one) for one in [*shipped, *_not_of_pypi(tools.get("pyinstaller", ""))]]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, repr((version, parts)))
    main = {"type": "application", "bom-ref": "beehive", "name": "beehive", "version": version,
            "licenses": [{"license": {"id": "Apache-2.0"}}]}  # fmt: skip
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1,
        "metadata": {"component": main}, "components": parts,
    }  # fmt: skip


def _not_of_pypi(bootloader: str) -> list[dict[str, Any]]:
    about: dict[str, Any] = {"kind": "generic", "classifiers": [], "texts": []}
    python = ".".join(map(str, sys.version_info[:3]))
    return [
        {**about, "name": "python", "version": python, "license": "PSF-2.0"},
        {**about, "name": "pyinstaller-bootloader", "version": bootloader,
         "license": "GPL-2.0-or-later WITH Bootloader-exception"},
    ]  # fmt: skip


def licence(package: dict[str, Any]) -> str:
    """An SPDX expression where the package tells one, else what its classifier means, else its own words."""
    told = str(package["license"]).strip()
    for classifier in package["classifiers"]:
        kind, _, name = str(classifier).rpartition(" :: ")
        if kind.startswith("License") and name in _OF_CLASSIFIER and (not told or " " in told or "\n" in told):
            return _OF_CLASSIFIER[name]
    if told:
        return told.splitlines()[0]
    heads = [" ".join(text.split())[:200] for text in package["texts"]]
    return next((spdx for head in heads for words, spdx in _OF_TEXT if words in head), "")


def may_be_shipped(expression: str) -> bool:
    """Told, and no copyleft that reaches our own code."""
    reached = _EXCEPTED.sub("", expression).upper().replace("(", " ").replace(")", " ").split()
    return bool(expression) and not any(word.startswith(_FORBIDDEN) for word in reached)


def _component(package: dict[str, Any]) -> dict[str, Any]:
    name, version = package["name"], package["version"]
    reference = f"pkg:{package.get('kind', 'pypi')}/{name.lower().replace('_', '-')}{version and f'@{version}'}"
    about = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
    told = {"licenses": [{"expression": licence(package)}]}
    return {**{key: value for key, value in about.items() if value}, **told}
