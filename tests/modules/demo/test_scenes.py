"""What a scene promises is looked at, host by host."""

from typing import Any

import pytest

from beehive.api.nodeupgradejob import JobStatus, NodeEntry
from modules.demo.run import _others
from modules.demo.scene import Played
from modules.demo.scenes import NEW, OLD, SCENES, Scene
from tests.fakes.jobs import a_job, with_status


class Answering:
    def __init__(self, name: str, version: str, up: bool = True) -> None:
        self.name, self._version, self._up = name, version, up

    def answers(self) -> str:
        return self._version

    def runs(self) -> bool:
        return self._up


def played(scene: Scene, phase: str = "", hosts: dict[str, Any] | None = None, **ends: str) -> Played:
    told = {plan.name: ends.get(plan.name.replace("-", "_"), plan.ends[0]) for plan in scene.hosts}
    entries = tuple(
        NodeEntry(node_name=name, phase=end.partition("/")[0], reason_code=end.partition("/")[2])
        for name, end in told.items()
    )
    found = {name: Answering(name, NEW if end == "Successful" else OLD) for name, end in told.items()}
    job = with_status(a_job(), JobStatus(phase=phase or scene.phase, node_status=entries))
    return Played(job, 1.0, tuple({**found, **(hosts or {})}.values()), scene)


@pytest.mark.parametrize("name", list(SCENES))
def test_a_scene_that_ends_as_told_is_good(name: str) -> None:
    assert played(SCENES[name]).wrong() == []


def test_every_way_in_which_it_may_end_otherwise_is_said() -> None:
    scene = SCENES["rollback"]
    assert played(scene, phase="Failure").wrong() == ["the job is Failure, not Completed"]
    assert played(scene, edge_2="Successful").wrong() == ["edge-2 is Successful, not Failure/RolledBack"]
    assert played(scene, hosts={"edge-1": Answering("edge-1", OLD)}).wrong() == [
        "edge-1 should run v1.23.0 and answers v1.22.0"
    ]
    assert played(scene, hosts={"edge-1": Answering("edge-1", NEW, up=False)}).wrong() != []
    assert played(scene, hosts={"edge-3": Answering("edge-3", "")}).wrong() == [
        "edge-3 should run v1.23.0 and answers nothing"
    ]


def test_what_to_try_next_is_another_scene() -> None:
    assert all(name not in _others(name) and len(set(_others(name))) == 2 for name in SCENES)
