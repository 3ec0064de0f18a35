"""The start-up checks: each refusal is a sentence that names the modules."""

import pytest

from beehive.message import Command, Event, Lagged, ModuleFailed, Request
from beehive.router import Declaration, complaints, routes


class Do(Command, frozen=True, kw_only=True, tag="router.do"):
    pass


class Done(Event, frozen=True, kw_only=True, tag="router.done"):
    pass


class Ask(Request[int], frozen=True, kw_only=True, tag="router.ask"):
    pass


class Ask2(Request[int], frozen=True, kw_only=True, tag="router.ask2"):
    pass


class Ask3(Request[int], frozen=True, kw_only=True, tag="router.ask3"):
    pass


@pytest.mark.parametrize(
    ("declarations", "said"),
    [
        pytest.param(
            [Declaration("a", accepts=(Do,)), Declaration("b", accepts=(Do,))],
            ["Do has two owners, a and b: exactly one module may accept it."],
            id="two owners of a command",
        ),
        pytest.param(
            [Declaration("a", accepts=(Ask,)), Declaration("b", accepts=(Ask,)), Declaration("c", accepts=(Ask,))],
            ["Ask has two owners, a and b and c: exactly one module may accept it."],
            id="three owners of a request",
        ),
        pytest.param(
            [Declaration("a", sends=(Do,))],
            ["a sends Do, but no module in this mode accepts it."],
            id="no owner of a command",
        ),
        pytest.param(
            [Declaration("a", asks=(Ask,))],
            ["a asks Ask, but no module in this mode accepts it."],
            id="no owner of a request",
        ),
        pytest.param(
            [Declaration("a", accepts=(Done,))],
            ["a waits for Done, but no module in this mode publishes it."],
            id="an event that nobody publishes",
        ),
        pytest.param(
            [Declaration("a", accepts=(Ask,), asks=(Ask2,)), Declaration("b", accepts=(Ask2,), asks=(Ask,))],
            ["Asks form a cycle: a asks b asks a. One of them must send a command instead."],
            id="a cycle of two",
        ),
        pytest.param(
            [
                Declaration("a", accepts=(Ask,), asks=(Ask2,)),
                Declaration("b", accepts=(Ask2,), asks=(Ask3,)),
                Declaration("c", accepts=(Ask3,), asks=(Ask,)),
            ],
            ["Asks form a cycle: a asks b asks c asks a. One of them must send a command instead."],
            id="a cycle of three",
        ),
        pytest.param(
            [Declaration("a", accepts=(Ask,), asks=(Ask,))],
            ["Asks form a cycle: a asks a. One of them must send a command instead."],
            id="a module that asks itself",
        ),
        pytest.param(
            [Declaration("a", sends=(Ask,)), Declaration("b", accepts=(Ask,))],
            ["a declares that it sends Ask, which is a request: it must be asked."],
            id="a request that is sent",
        ),
        pytest.param(
            [Declaration("a", asks=(Do,)), Declaration("b", accepts=(Do,))],
            ["a declares that it asks Do, which is not a request: it must be sent."],
            id="a command that is asked",
        ),
    ],
)
def test_an_impossible_set_of_modules_is_refused(declarations: list[Declaration], said: list[str]) -> None:
    assert complaints(declarations) == said


@pytest.mark.parametrize(
    "declarations",
    [
        pytest.param([Declaration("a", sends=(Done,))], id="an event that nobody wants"),
        pytest.param([Declaration("a", accepts=(Lagged, ModuleFailed))], id="the kernel's own events"),
        pytest.param(
            [Declaration("a", asks=(Ask, Ask2)), Declaration("b", accepts=(Ask,), asks=(Ask2,)),
             Declaration("c", accepts=(Ask2,))],
            id="asks that go downhill on two ways",
        ),
        pytest.param([Declaration("a", accepts=(Do,), sends=(Do,))], id="a command to oneself"),
    ],
)  # fmt: skip
def test_a_possible_set_of_modules_is_accepted(declarations: list[Declaration]) -> None:
    assert complaints(declarations) == []


def test_what_an_absent_module_would_own_is_no_complaint() -> None:
    lonely = [Declaration("a", sends=(Do,), asks=(Ask,), accepts=(Done,))]
    assert len(complaints(lonely)) == 3
    assert complaints(lonely, absent=(Do, Ask, Done)) == []


def test_the_table_names_one_owner_and_all_subscribers() -> None:
    table = routes(
        [Declaration("a", sends=(Done, Do)), Declaration("b", accepts=(Do, Done)), Declaration("c", accepts=(Done,))]
    )
    assert table.owners == {Do: "b"}
    assert table.subscribers == {Done: ("b", "c")}
