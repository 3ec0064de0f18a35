"""`beehive`: serve in a mode, or do one of the operator's commands."""

import difflib
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from beehive.errors import (
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_RUNTIME,
    EXIT_USAGE,
    BeehiveError,
    ConfigError,
    RuntimeFailed,
)

_COMMANDS = {
    "demo": ("demo", "Upgrade five hosts on this machine: no cluster, no root."),
    "job": ("job", "Upgrade nodes: make jobs, watch them, stop them."),
    "token": ("token", "Make the tokens by which edge hosts join."),
    "edge": ("edge", "Join this host to a cloud; or, in the cloud, turn a host away."),
    "etcd": ("etcd", "See who votes in etcd, and whether a node may go down."),
    "ca": ("ca", "See and replace the certificate authority of the hub."),
    "routes": ("inspect", "Print which module says what to which."),
    "crd": ("inspect", "Print the CustomResourceDefinition to install."),
    "config": ("inspect", "Check or show the configuration."),
    "version": ("inspect", "Print what runs here."),
    "completion": ("inspect", "Print the script by which bash, zsh or fish complete."),
    "ready": ("ready", "Ask the process on this machine whether it can do its work."),
    "keadm": ("root", "Back up, upgrade or roll back this host, as `keadm` does."),
}
"""Command -> the file that holds it, and its line in the help; files are imported when they are used."""


class Commands(click.Group):
    """Subcommands that are imported late, and the nearest right word for a wrong one."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"beehive_cli.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, name)
        return command

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        if args and args[0] not in _COMMANDS:
            context.fail(f'"{args[0]}" is not a command{_nearest(args[0], list(_COMMANDS))}')
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f". Did you mean {near[0]}?" if near else f". There is {', '.join(known)}."


def _one_of(known: Callable[[], Sequence[str]], what: str) -> Callable[..., Any]:
    """A click callback that refuses other words, and names the nearest right one."""

    def check(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        for word in value.split(",") if value is not None else ():
            if word not in known():
                raise click.BadParameter(f'"{word}" is not a {what}{_nearest(word, known())}')
        return value

    return check


def _module_names() -> list[str]:
    from modules.registry import MODULES  # noqa: PLC0415

    return [spec.name for spec in MODULES]


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 busy, 70 gave up at run time, 78 configuration.",
)
@click.option("--mode", metavar="cloud|edge", callback=_one_of(lambda: ["cloud", "edge"], "mode"),
              help="Serve: the cloud side beside the API server, or the agent on an edge host.")  # fmt: skip
@click.option("--config", "file", metavar="FILE", help="YAML configuration; without it, the defaults.")
@click.option("--modules", metavar="A,B", callback=_one_of(_module_names, "module"),
              help="Run these modules only.")  # fmt: skip
@click.option("--set", "settings", metavar="PATH=VALUE", multiple=True,
              help="Override one setting, such as cloudhub.websocket.port=10000; can be repeated.")  # fmt: skip
@click.option("--log-format", metavar="text|json", callback=_one_of(lambda: ["text", "json"], "log format"),
              help="How log lines are written.")  # fmt: skip
@click.option("--trace", is_flag=True, help="Keep a bounded record of all messages between modules.")
@click.version_option(package_name="beehive", message="%(version)s")
@click.pass_context
def beehive(
    context: click.Context, mode: str | None, file: str | None, modules: str | None, settings: tuple[str, ...],
    log_format: str | None, trace: bool,
) -> None:  # fmt: skip
    """Upgrade thousands of edge nodes from one Kubernetes object, and see the truth about etcd members.

    \b
    beehive demo                            see it work, here and now
    beehive --mode cloud --config FILE      run beside the API server
    beehive --mode edge --config FILE       run on an edge host
    """
    if context.invoked_subcommand:
        return
    if mode is None:
        click.echo(context.get_help())
        return
    from beehive_cli.serve import serve  # noqa: PLC0415

    _fit(mode, modules)
    overrides = {"runtime.logFormat": log_format} if log_format else {}
    serve(mode, file, modules.split(",") if modules else [], {**overrides, **_pairs(settings)}, trace)


def _fit(mode: str, modules: str | None) -> None:
    """Raises UsageError for modules of the other mode: a process without any would call itself ready."""
    from modules.registry import MODULES  # noqa: PLC0415

    known = [spec.name for spec in MODULES if getattr(spec, mode)]
    if strangers := [name for name in (modules.split(",") if modules else ()) if name not in known]:
        verb = "is no module" if len(strangers) == 1 else "are no modules"
        raise click.UsageError(f"{', '.join(strangers)} {verb} of mode {mode}; there are {', '.join(known)}.")


def _pairs(settings: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(f'"{setting}" is not PATH=VALUE', param_hint="--set")
        pairs[path] = value
    return pairs


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def keadm(arguments: tuple[str, ...]) -> NoReturn:
    """Back up, upgrade or roll back this host, as `keadm` does."""
    from beehive_cli.keadm import run as tool  # noqa: PLC0415

    sys.exit(tool(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command; errors that are meant become one sentence on stderr and an exit code."""
    try:
        code = beehive.main(list(arguments), prog_name="beehive", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return EXIT_USAGE
    except click.Abort:
        return EXIT_FAILED
    except BeehiveError as error:
        click.echo(str(error), err=True)
        return (
            EXIT_CONFIG
            if isinstance(error, ConfigError)
            else EXIT_RUNTIME
            if isinstance(error, RuntimeFailed)
            else EXIT_FAILED
        )
    except OSError as error:
        click.echo(f"{error.filename or 'This machine'}: {error.strerror}.", err=True)
        return EXIT_RUNTIME
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        click.echo(
            f"A fault of Beehive itself, at {place.filename}:{place.lineno}: {error!r:.300}. Report it.", err=True
        )
        return EXIT_RUNTIME
    return code if isinstance(code, int) else EXIT_OK
