"""A module's own numbers, and how they are exposed."""

from typing import Any, ClassVar

from beehive.figures import COUNTER, GAUGE, HISTOGRAM, Figures, Metric
from beehive.metrics import exposition
from beehive.supervisor import Supervisor
from beehive.world import World
from tests.kernel.talk import pair

JOBS = Metric("beehive_some_jobs", GAUGE, "Jobs", ("phase",))
CALLS = Metric("beehive_some_calls", COUNTER, "Calls", ("verb", "code"))
STEP = Metric("beehive_some_seconds", HISTOGRAM, "Seconds", ("step",), (1.0, 10.0))


def exposed(*modules: Any) -> list[str]:
    _, __, bus = pair()
    supervisor = Supervisor(bus, World())
    for name, module in zip(("owner", "caller"), modules, strict=False):
        supervisor.add(name, lambda: None)  # type: ignore[arg-type, return-value]
        supervisor.keepers[-1].module = module
    return exposition(supervisor)[1].decode().splitlines()


class Numbered:
    def __init__(self, *metrics: Metric) -> None:
        self.figures = Figures(*metrics)


def test_gauges_counters_and_histograms_are_exposed_with_their_labels() -> None:
    module = Numbered(JOBS, CALLS, STEP)
    module.figures.set(JOBS, 3, "Init")
    module.figures.set(JOBS, 2, "Init")
    module.figures.add(CALLS, "get", "200")
    module.figures.add(CALLS, "get", "200", by=2)
    for seconds in (0.5, 1.0, 9, 11):
        module.figures.observe(STEP, seconds, "Check")
    lines = exposed(module)
    assert 'beehive_some_jobs{phase="Init"} 2.0' in lines
    assert 'beehive_some_calls_total{code="200",verb="get"} 3.0' in lines
    assert [line for line in lines if line.startswith("beehive_some_seconds")] == [
        'beehive_some_seconds_bucket{le="1.0",step="Check"} 2.0',
        'beehive_some_seconds_bucket{le="10.0",step="Check"} 3.0',
        'beehive_some_seconds_bucket{le="+Inf",step="Check"} 4.0',
        'beehive_some_seconds_count{step="Check"} 4.0',
        'beehive_some_seconds_sum{step="Check"} 21.5',
    ]


def test_a_derived_number_is_found_out_at_each_scrape() -> None:
    module, ages = Numbered(JOBS), [1.0]
    module.figures.derived(JOBS, lambda: {("Init",): ages[0]})
    assert 'beehive_some_jobs{phase="Init"} 1.0' in exposed(module)
    ages[0] = 5.0
    assert 'beehive_some_jobs{phase="Init"} 5.0' in exposed(module)


def test_one_family_of_two_modules_is_exposed_once() -> None:
    one, two = Numbered(JOBS), Numbered(JOBS)
    one.figures.set(JOBS, 1, "Init")
    two.figures.set(JOBS, 2, "Completed")
    lines = exposed(one, two)
    assert lines.count("# TYPE beehive_some_jobs gauge") == 1
    assert {'beehive_some_jobs{phase="Init"} 1.0', 'beehive_some_jobs{phase="Completed"} 2.0'} <= set(lines)


def test_what_a_module_merely_counts_is_shown_by_its_name() -> None:
    class Counting:
        counters: ClassVar = {"passes": 7}

    assert 'beehive_counted_total{module="owner",what="passes"} 7.0' in exposed(Counting())


def test_every_process_says_what_it_is() -> None:
    assert any(line.startswith("beehive_build_info{python=") and line.endswith(" 1.0") for line in exposed())
