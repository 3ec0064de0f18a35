"""Promise 1 on real hosts: the power is cut at every moment of an upgrade and of a rollback, on ext4, under systemd.

By default every boundary of the tool's record and every fourth of the other moments; `BEEHIVE_CUTS=all` tries all.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.hosts.running.cuts import Cut, Matrix, is_boundary, random_cuts, recover_all
from tests.hosts.running.edge import NEW, OLD
from tests.hosts.running.forge import Forge
from tests.real.running.standins import Variant, standin

_ALL = os.environ.get("BEEHIVE_CUTS") == "all"
_RANDOM = 40 if _ALL else 12


def chosen(cut: Cut) -> bool:
    return _ALL or is_boundary(cut) or cut.number % 4 == 0


Note = Callable[[str, object], None]


def judge(matrix: Matrix, note: Note) -> None:
    note("cuts", "\n".join(matrix.lines()))
    assert not matrix.wrong, f"{len(matrix.wrong)} cuts ended wrong:\n" + "\n\n".join(matrix.wrong[:5])


@pytest.mark.timeout(1500)
def test_a_cut_at_any_moment_of_an_upgrade_ends_in_the_old_or_the_new_version(
    forge: Forge, record_property: Note
) -> None:
    matrix = recover_all(forge, "upgrade", standin(NEW), standin(OLD), chosen)
    judge(matrix, record_property)
    assert sum(matrix.ends.values()) > 50
    assert matrix.ends["upgrade", "new"] > 40, "a good version gets through a cut"


@pytest.mark.timeout(1500)
def test_a_cut_at_any_moment_of_a_rollback_ends_in_the_old_version(forge: Forge, record_property: Note) -> None:
    matrix = recover_all(forge, "rollback", standin(NEW, Variant.CRASHING), standin(OLD), chosen)
    judge(matrix, record_property)
    assert sum(matrix.ends.values()) > 60
    assert matrix.ends["rollback", "new"] == 0, "a version that crashes is never left behind"


@pytest.mark.timeout(1500)
def test_a_plug_pulled_at_random_and_again_in_the_recovery(forge: Forge, record_property: Note) -> None:
    matrix = Matrix()
    good, bad, old = standin(NEW), standin(NEW, Variant.CRASHING), standin(OLD)
    with ThreadPoolExecutor(2) as workers:
        for done in [
            workers.submit(random_cuts, forge, seed, bad if seed % 3 == 2 else good, old, matrix)
            for seed in range(_RANDOM)
        ]:
            done.result()
    judge(matrix, record_property)
    assert sum(matrix.ends.values()) == _RANDOM
