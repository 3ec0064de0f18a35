"""What the house tests look at: the files that git knows, measured."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]
SOURCE = ("beehive", "modules", "cmd")


class Function(NamedTuple):
    where: str
    lines: int


def tracked(*folders: str, ending: str = "") -> list[Path]:
    """Tracked and new files below the folders, as git sees them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=TOP, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    return [TOP / name for name in listed if name and name.endswith(ending) and (TOP / name).is_file()]


def relative(path: Path) -> str:
    return str(path.relative_to(TOP))


def functions(path: Path) -> Iterator[Function]:
    """Every function with its length: body lines without the docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            yield Function(
                f"{relative(path)}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1 - docstring
            )
