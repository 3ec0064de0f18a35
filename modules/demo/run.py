"""`beehive demo` from its first line to its exit code."""

import contextlib
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from rich.console import Console

from modules.console.view import summary
from modules.demo.cluster import running
from modules.demo.scene import JOB, Played, Stage
from modules.demo.scenes import NEW, OLD, SCENES, Scene
from modules.demo.show import Lines, LiveTable, Show, coloured, rows, wants_terminal

_UNCUT = 1000
"""The last table shows every sentence whole; a terminal wraps what is too long."""


def run(scene_name: str, *, as_json: bool, keep: bool) -> int:
    """Set the scene up, play it, tell how it ended: 0 when all ended as the scene tells."""
    scene = SCENES[scene_name]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    with _directory() as directory, running(directory) as cluster:
        stage = Stage(scene, directory, cluster)
        try:
            _say(_opening(scene), quiet=as_json)
            stage.set_up()
            with _show(scene, stage, as_json) as show:
                played = stage.play(show.look)
            good = not played.wrong()
            _tell(scene_name, played, stage, as_json)
            if keep:
                _keep_running(directory)
        finally:
            stage.end()
    return 0 if good else 1


def _opening(scene: Scene) -> str:
    return (
        f" Beehive demo: 1 cluster (embedded), {len(scene.hosts)} edge hosts, {OLD} → {NEW}, "
        f"{scene.concurrency} at a time, tolerance {scene.tolerate}\n ({scene.title})\n"
    )


def _say(text: str, *, quiet: bool) -> None:
    print(text, file=sys.stderr if quiet else sys.stdout, flush=True)


def _show(scene: Scene, stage: Stage, as_json: bool) -> Show:
    if as_json or not wants_terminal():
        return Lines(stage.notes)
    tolerated = int(Fraction(scene.tolerate.removesuffix("%")) * len(scene.hosts) / 100)
    return LiveTable(tolerated, lambda name: stage.hosts[name].answers(), stage.notes)


def _tell(name: str, played: Played, stage: Stage, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"scene": name, **played.told()}), flush=True)
        return
    console = Console(highlight=False, soft_wrap=True)
    table = rows(played.job, lambda name: stage.hosts[name].answers(), stage.notes)
    for line in coloured(played.job, table, _UNCUT):
        console.print(line)
    console.print(f"\n{summary(played.job, played.seconds)}")
    wrong = played.wrong()
    if wrong:
        console.print(f" It did not end as told: {'; '.join(wrong)}. That is a defect. Please report it.", markup=False)
        return
    console.print(" It ended as told, and every host runs a complete version. Try next:")
    for scene in _others(name):
        console.print(f"   beehive demo --scene {scene:<9}  {SCENES[scene].title}")
    console.print("   beehive demo --keep             leave it running, with a kubeconfig for kubectl")


def _others(name: str) -> list[str]:
    """The two scenes after this one."""
    names = [*SCENES, *SCENES]
    after = names.index(name) + 1
    return names[after : after + 2]


def _keep_running(directory: Path) -> None:
    """Until Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        print(f"\n It runs on. Look at it with: kubectl --kubeconfig {directory}/kubeconfig get nuj {JOB} -o wide")
        print(" Ctrl-C ends it.", flush=True)
        signal.pause()


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """A directory for everything; removed at the end, unless something went wrong and there is something to read."""
    directory = Path(tempfile.mkdtemp(prefix="beehive-demo-"))
    try:
        yield directory
    except Exception:
        print(f"The logs are in {directory}.", file=sys.stderr)
        raise
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


def _stop(number: int, _: object) -> None:
    """SIGTERM, or a terminal that closes, ends the demo as Ctrl-C does: all that it started is ended first."""
    raise SystemExit(128 + number)
