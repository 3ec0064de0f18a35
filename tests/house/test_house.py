"""The house keeps its own rules: sizes, names, places. Each test names the files that break one."""

import ast
import re
import statistics
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.house.tree import SOURCE, TOP, functions, relative, tracked

PYTHON = tracked(*SOURCE, ending=".py")


def test_there_is_a_house_to_look_at() -> None:
    assert len(PYTHON) > 50


def test_no_file_is_longer_than_300_lines() -> None:
    counted = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON}
    assert {name: lines for name, lines in counted.items() if lines > 300} == {}


def test_functions_are_short() -> None:
    measured = [function for path in PYTHON for function in functions(path)]
    lengths = sorted(function.lines for function in measured)
    assert [function for function in measured if function.lines > 50] == []
    assert statistics.median(lengths) <= 9
    assert lengths[int(len(lengths) * 0.9)] <= 30


@pytest.mark.parametrize("word", ["utils", "util", "helpers", "helper", "common", "misc"])
def test_nothing_is_named_for_not_having_a_name(word: str) -> None:
    assert [relative(path) for path in PYTHON if word in path.with_suffix("").parts] == []


def test_cmd_has_no_init_and_hides_no_package() -> None:
    """`pdb` imports the standard module `cmd`: with an __init__.py ours would win (architecture.md 8)."""
    assert not (TOP / "cmd" / "__init__.py").exists()
    ours = {path.name for path in (TOP / "cmd").iterdir()} - {"__pycache__"}
    assert ours == {"beehive_cli"}


def test_no_dependency_brings_a_package_of_our_names() -> None:
    ours = ("beehive", "modules", "beehive_cli")
    clashes = [
        f"{found.metadata['Name']}: {file}"
        for found in distributions()
        if found.metadata["Name"] != "beehive"
        for file in found.files or ()
        if file.parts[0].removesuffix(".py") in ours
    ]
    assert clashes == []


def test_nothing_builds_a_shell_command() -> None:
    shells = re.compile(
        r"shell\s*=\s*True|os\.system|os\.popen|create_subprocess_shell|['\"](ba)?sh['\"],\s*['\"]-c['\"]"
    )
    found = [relative(path) for path in PYTHON if shells.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_every_kernel_file_is_under_the_kernels_import_contract() -> None:
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = next(one["source_modules"] for one in contracts if one["name"].startswith("The kernel knows neither"))
    assert set(listed) == {f"beehive.{path.stem}" for path in (TOP / "beehive").glob("*.py") if path.stem != "__init__"}


ALLOWED_BREADTH = {
    "beehive/supervisor.py": "the supervisor",
    "modules/upgrader/tool": "the tool",
    "cmd/beehive_cli/root.py": "the front door: a fault of ours ends in a sentence, never in a traceback",
    "modules/cloudhub": "seam: one request",
    "modules/demo": "the demo's own server, a seam per request",
}
"""Where `except Exception` may stand (architecture.md 9); other seams use `beehive.seam`."""


def test_everything_is_caught_only_where_one_bad_thing_must_spoil_only_itself() -> None:
    broad = [
        relative(path)
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node.type)
    ]
    assert [name for name in broad if not name.startswith(tuple(ALLOWED_BREADTH))] == []


def _catches_everything(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_catches_everything(one) for one in kind.elts)
    return kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))


def test_nothing_names_a_registry_a_lock_of_it_or_a_place_of_one_machine() -> None:
    """A clone must work anywhere; addresses belong to the machine's own settings."""
    words = ("pypi" + ".org", "files.python" + "hosted", "proxy." + "golang", "registry." + "npmjs", "/wo" + "rk/")
    texts = [path for path in tracked() if path.suffix in {".py", ".md", ".toml", ".lock", ".yaml", ".sh", ".mod", ""}]
    found = [
        f"{relative(path)}: {word}"
        for path in texts
        for word in words
        if word in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []
    assert not (TOP / "uv.lock").exists()


def test_every_kubeedge_vector_is_used_by_a_test() -> None:
    names = [path.stem for path in (TOP / "tests/vectors/kubeedge").glob("*.json")]
    assert len(names) > 30
    others = (path for path in tracked("tests", ending=".py") if path != Path(__file__))
    named = _patterns("\n".join(path.read_text(encoding="utf-8") for path in others))
    assert [name for name in names if not any(re.fullmatch(one, name) for one in named)] == []


def _patterns(tests: str) -> set[str]:
    """How tests name vectors: whole, with a gap (`ws_{name}`), or as a family (`ws_upstream_*.json`)."""
    written = re.findall(r'"((?:ws|admission|file|rule|cr|http|captured)_[^"\s]+)"', tests)
    return {re.sub(r"\\\{.*?\\\}|\\\*", ".+", re.escape(one.removesuffix(".json"))) for one in written}


def test_a_vector_that_no_test_names_is_found() -> None:
    named = _patterns('vector("cr_one")  vector(f"rule_{case}")  glob("ws_up_*.json")')
    for name, is_named in (
        ("cr_one", True),
        ("rule_x", True),
        ("ws_up_1", True),
        ("cr_two", False),
        ("ws_down", False),
    ):
        assert any(re.fullmatch(one, name) for one in named) is is_named
