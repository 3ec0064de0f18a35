"""What docs/ tell people to type exists: every command and option, every link, every setting and metric."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from msgspec.inspect import is_struct_type

from beehive.metrics import KERNEL
from beehive.runtime import sections
from beehive_cli.root import beehive
from modules.console.papers import declared, names
from modules.registry import MODULES

TOP = Path(__file__).resolve().parents[3]
PAPERS = sorted([*(TOP / "docs").glob("*.md"), TOP / "README.md"])
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in PAPERS}
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_FENCE = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def typed(text: str) -> Iterator[str]:
    """Everything that looks like a call of beehive, in blocks, spans and tables."""
    joined = text.replace("\\\n", " ")
    fenced = [line for block in _FENCE.findall(joined) for line in block.splitlines()]
    indented = [line.strip() for line in joined.splitlines() if line.startswith("    ")]
    spans = [" ".join(span.split()) for span in _SPAN.findall(_FENCE.sub("", joined))]
    for line in (*fenced, *indented, *spans):
        for part in re.split(r"\s[|>]\s|&&|\s#\s|\s{3,}", line.removeprefix("$ ")):
            words = part.strip()
            nuj = re.match(r"kubectl nuj (.*)", words)
            other = re.match(r"kubectl beehive (.*)", words)
            inner = re.search(r"-- (beehive .*)", words)
            if inner:
                yield inner[1]
            elif nuj:
                yield f"beehive job {nuj[1]}"
            elif other:
                yield f"beehive {other[1]}"
            elif words.startswith("beehive "):
                yield words


def complaint(line: str) -> str:
    """What is wrong with a command line; empty where it exists."""
    first = re.sub(r"(\w+)(\\?\|\w+)+", r"\1", line.replace("…", ""))  # of `status|logs` the first
    words = shlex.split(first)[1:]
    command: Any = beehive
    context = click.Context(beehive)
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return "" if re.fullmatch(r"[A-Z]+", words[0]) else f"no command {words[0]}"
        command, words = found, words[1:]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    wrong = [option for option in options if option not in known]
    if isinstance(command, click.Command) and command.name == "keadm":
        return ""
    return f"no option {wrong[0]} of {command.name}" if wrong else ""


def test_the_look_up_would_find_what_does_not_exist() -> None:
    assert complaint("beehive job describe north --all") == ""
    assert complaint("beehive job decsribe north") == "no command decsribe"
    assert complaint("beehive job describe north --everything") == "no option --everything of describe"
    assert list(typed("say `beehive job list`, or\n\n    kubectl nuj get x  # look\n")) == [
        "beehive job get x", "beehive job list",
    ]  # fmt: skip


@pytest.mark.parametrize("name", list(TEXTS))
def test_every_command_in_a_paper_exists(name: str) -> None:
    found = list(typed(TEXTS[name]))
    assert [f"{line}: {wrong}" for line in found if (wrong := complaint(line))] == []


def test_papers_show_most_commands() -> None:
    shown = " ".join(line for text in TEXTS.values() for line in typed(text))
    for verb in ("create", "list", "get", "watch", "describe", "plan", "suspend", "resume", "abort", "retry", "logs"):
        assert f"beehive job {verb}" in shown, verb


def anchors(text: str) -> set[str]:
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("name", list(TEXTS))
def test_every_link_leads_somewhere(name: str) -> None:
    path = next(path for path in PAPERS if path.name == name)
    for target in re.findall(r"\]\(([^)]+)\)", TEXTS[name]):
        file, _, anchor = target.partition("#")
        where = (path.parent / file).resolve() if file else path
        assert where.exists(), target
        assert not anchor or anchor in anchors(where.read_text(encoding="utf-8")), target


def _exists(kind: Any, parts: list[str]) -> bool:
    if not parts:
        return True
    fields = {one.encode_name: one.type for one in msgspec.structs.fields(kind)} if is_struct_type(kind) else {}
    return parts[0] in fields and (len(parts) == 1 or _exists(fields[parts[0]], parts[1:]))


@pytest.mark.parametrize("name", list(TEXTS))
def test_every_setting_in_a_paper_exists(name: str) -> None:
    known = sections(MODULES)
    wrong = []
    for span in _SPAN.findall(TEXTS[name]):
        found = None if span.endswith((".sock", ".py", ".md")) else re.match(r"([a-z]+)((?:\.[a-zA-Z]+)+)(?::|$)", span)
        if found and found[1] in known and not _exists(known[found[1]], found[2].split(".")[1:]):
            wrong.append(span)
    assert wrong == []


@pytest.mark.parametrize("name", list(TEXTS))
def test_every_metric_in_a_paper_exists(name: str) -> None:
    metrics = [*KERNEL, *(metric for spec in MODULES for metric in declared(spec))]
    known = {form for metric in metrics for form in (metric.name, *names(metric))}
    told = set(re.findall(r"\bbeehive_[a-z_]+", TEXTS[name])) - {"beehive_cli"}
    assert told - known == set()
