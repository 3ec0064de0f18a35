"""Configuration: strict, every problem at once, each with its line and path."""

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from beehive.config import Duration, Port, Source, environment_names, load, where
from beehive.errors import ConfigError


class Websocket(Struct, frozen=True, rename="camel"):
    port: Port = 10000
    idle_after: Duration = Duration(30)


class Hub(Struct, frozen=True, rename="camel"):
    websocket: Websocket = Websocket()
    names: tuple[str, ...] = ()
    open: bool = True


class Tasks(Struct, frozen=True, rename="camel"):
    flush: Duration = Duration(1)
    version: str = "v1"


SECTIONS: dict[str, type[Struct]] = {"hub": Hub, "tasks": Tasks}


def read(text: str, environment: dict[str, str] | None = None, flags: dict[str, str] | None = None) -> dict[str, Any]:
    return load(SECTIONS, Source("cloud.yaml", text, environment or {}, flags or {}))


def problems(text: str, **more: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(ConfigError) as caught:
        read(text, **more)
    return [tuple(problem) for problem in caught.value.problems]  # type: ignore[misc]


@pytest.mark.parametrize("text", ["", "# nothing\n", "hub:\n", "{}", "hub: {}\n"])
def test_nothing_said_means_the_defaults(text: str) -> None:
    assert read(text) == {"hub": Hub(), "tasks": Tasks()}


def test_values_arrive_in_their_types() -> None:
    said = read("hub:\n  websocket: {port: 1, idleAfter: 5m}\n  names: [a, b]\ntasks: {flush: 250ms}\n")
    assert said["hub"] == Hub(websocket=Websocket(port=1, idle_after=Duration(300)), names=("a", "b"))
    assert said["tasks"].flush == 0.25
    assert isinstance(said["tasks"].flush, Duration)


def test_all_problems_are_said_at_once_with_line_and_path() -> None:
    text = """hub:
  websocket:
    port: 100000
    idleAfter: soon
  names: [a, 1]
tasks:
  flush: "1"
  flusch: 2s
  flush: 3s
hubb:
  port: 1
"""
    assert problems(text) == [
        ("line 3", "hub.websocket.port", "100000 is not a port; give 1 to 65535"),
        ("line 4", "hub.websocket.idleAfter", '"soon" is not a duration; write one like 30s, 5m or 1h'),
        ("line 5", "hub.names", "['a', 1] does not fit: expected `str`, got `int` - at `$[1]`"),
        ("line 8", "tasks.flusch", "no such setting; did you mean flush?"),
        ("line 9", "tasks.flush", "stands twice, first in line 7; take one away"),
        ("line 10", "hubb", "no such section; did you mean hub?"),
    ]


def test_the_text_for_people_counts_and_lists_in_the_order_of_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        read("tasks:\n  flush: 1\nhub:\n  open: maybe\n")
    assert str(caught.value).splitlines() == [
        "cloud.yaml has 2 problems:",
        '  line 2   tasks.flush: "1" has no unit; write 1s',
        "  line 4   hub.open: 'maybe' does not fit: expected `bool`, got `str`",
    ]


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("hub: [1, 2", "line 1", "not YAML: "),
        ("a: b: c", "line 1", "not YAML: mapping values are not allowed here"),
        ("\ttab: 1", "line 1", "not YAML: "),
        ("- a\n- b\n", "line 1", "expected settings below it"),
        ("hub: yes please", "line 1", "expected settings below it"),
        ("hub: !!python/object/apply:os.system [id]", "line 1", "expected settings below it"),
        ("tasks: {version: !!python/object/apply:os.system [id]}", "line 1", "cannot be read"),
        ("hub: \x00", "file", "not YAML: "),
    ],
)
def test_what_is_not_settings_is_refused(text: str, where: str, said: str) -> None:
    found = problems(text)
    assert found[0][0] == where
    assert found[0][2].startswith(said)


def test_an_unquoted_version_that_yaml_takes_for_a_number_is_refused_not_changed() -> None:
    assert problems("tasks: {version: 1.20}") == [
        ("line 1", "tasks.version", "1.2 does not fit: expected `str`, got `float`")
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("BEEHIVE_HUB_WEBSOCKETPORT", "no such setting; did you mean BEEHIVE_HUB_WEBSOCKET_PORT?"),
        ("BEEHIVE_TASKS_FLUHS", "no such setting; did you mean BEEHIVE_TASKS_FLUSH?"),
        ("BEEHIVE_TASK_FLUSH", "no such setting; did you mean BEEHIVE_TASKS_FLUSH?"),
        ("BEEHIVE_HUB_ANYTHING_ELSE", "no such setting"),
    ],
)
def test_a_name_in_the_environment_that_looks_like_one_of_ours_must_be_one(name: str, text: str) -> None:
    assert problems("", environment={name: "2s"}) == [(name, "", text)]


def test_the_variables_that_kubernetes_makes_of_services_are_left_alone() -> None:
    """Of `beehive`, `beehive-hub`, and `beehive-hub-websocket`, one of whose is spelled as a setting of ours."""
    services: dict[str, str] = {}
    for name in ("BEEHIVE", "BEEHIVE_HUB", "BEEHIVE_HUB_WEBSOCKET", "BEEHIVE_TASKS_FLUSH"):
        services |= {f"{name}_SERVICE_HOST": "10.0.0.1", f"{name}_SERVICE_PORT": "10000"}
        services |= {f"{name}_SERVICE_PORT_HTTPS": "10002", f"{name}_PORT": "tcp://10.0.0.1:10000"}
        services |= {f"{name}_PORT_10000_TCP{end}": "x" for end in ("", "_PROTO", "_PORT", "_ADDR")}
    assert read("", services)["hub"].websocket.port == 10000


@pytest.mark.parametrize(
    "name", ["BEEHIVE_JOIN_TOKEN", "BEEHIVE_HUBRIS", "BEEHIVE_", "BEEHIVE", "XBEEHIVE_TASKS_FLUHS"]
)
def test_other_names_in_the_environment_are_somebody_elses(name: str) -> None:
    assert read("", {name: "x"}) == {"hub": Hub(), "tasks": Tasks()}


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("tasks:\n  flush: 1s\n", {}, "line 2"),
        ("", {"environment": {"BEEHIVE_TASKS_FLUSH": "1s"}}, "BEEHIVE_TASKS_FLUSH"),
        ("tasks:\n  flush: 1s\n", {"flags": {"tasks.flush": "3s"}}, "--tasks.flush"),
        ("", {}, "default"),
    ],
)
def test_where_a_setting_comes_from_can_be_said(text: str, more: dict[str, Any], expected: str) -> None:
    assert where(SECTIONS, Source("cloud.yaml", text, **more), "tasks.flush") == expected


def test_the_environment_overrides_the_file_and_flags_override_both() -> None:
    text = "hub: {websocket: {port: 1}}\ntasks: {flush: 1s}"
    environment = {"BEEHIVE_HUB_WEBSOCKET_PORT": "2", "BEEHIVE_TASKS_FLUSH": "2s", "BEEHIVE_PORT_10000_TCP": "tcp://1"}
    said = read(text, environment, {"tasks.flush": "3s"})
    assert (said["hub"].websocket.port, said["tasks"].flush) == (2, 3)


def test_a_wrong_value_names_the_variable_or_the_flag() -> None:
    assert problems("", environment={"BEEHIVE_TASKS_FLUSH": "2"}, flags={"hub.open": "maybe", "hub.opne": "true"}) == [
        ("--hub.open", "hub.open", "'maybe' does not fit: expected `bool`, got `str`"),
        ("BEEHIVE_TASKS_FLUSH", "tasks.flush", '"2" has no unit; write 2s'),
        ("flag", "hub.opne", "no such setting; did you mean hub.open?"),
    ]


def test_every_setting_has_a_variable() -> None:
    assert environment_names(Hub, "hub") == {
        "BEEHIVE_HUB_WEBSOCKET_PORT": "hub.websocket.port",
        "BEEHIVE_HUB_WEBSOCKET_IDLEAFTER": "hub.websocket.idleAfter",
        "BEEHIVE_HUB_NAMES": "hub.names",
        "BEEHIVE_HUB_OPEN": "hub.open",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("? [a, b]\n: 1", ("line 1", "", "a list or a mapping cannot be a name")),
        ("tasks: {version: 2026-13-45}", ("line 1", "tasks.version", "cannot be read: month must be in 1..12")),
        ("hub: {websocket: {port: !!int abc}}", ("line 1", "hub.websocket.port", "cannot be read: invalid literal")),
        ("[" * 3000, ("file", "", "not YAML that can be read: nested too deeply")),
    ],
)
def test_what_yaml_itself_cannot_make_a_value_of_is_a_problem(text: str, said: tuple[str, str, str]) -> None:
    where, path, sentence = problems(text)[0]
    assert (where, path) == said[:2]
    assert sentence.startswith(said[2])


@pytest.mark.parametrize("value", ["{", "[x", "2026-13-45", "&a *b", "\t", "!!binary x"])
def test_a_flag_or_a_variable_that_is_no_yaml_is_a_problem(value: str) -> None:
    found = problems("", flags={"hub.websocket.port": value}, environment={"BEEHIVE_TASKS_FLUSH": value})
    assert sorted(problem[1] for problem in found) == ["hub.websocket.port", "tasks.flush"]


def test_a_flag_of_a_section_that_nobody_has_is_a_problem() -> None:
    assert problems("", flags={"hb.websocket.port": "1"}) == [
        ("flag", "hb.websocket.port", "no such setting; did you mean hub.websocket.port?")
    ]


class Lease(Struct, frozen=True, rename="camel"):
    duration: Duration = Duration(15)
    renew_after: Duration = Duration(10)

    def problems(self) -> list[tuple[str, str]]:
        return [("renewAfter", "must be less than duration")] if self.renew_after >= self.duration else []


class Api(Struct, frozen=True, rename="camel"):
    lease: Lease = Lease()
    level: Literal["low", "high"] = "low"


def test_settings_that_do_not_fit_each_other_are_said_with_the_rest() -> None:
    text = "api:\n  level: loud\n  lease:\n    renewAfter: 20s\n"
    with pytest.raises(ConfigError) as caught:
        load({"api": Api}, Source("cloud.yaml", text))
    assert [tuple(problem) for problem in caught.value.problems] == [
        ("line 2", "api.level", "'loud' is not one of low, high"),
        ("line 4", "api.lease.renewAfter", "must be less than duration"),
    ]


def test_a_misfit_that_the_defaults_have_part_in_names_what_was_set() -> None:
    with pytest.raises(ConfigError, match=r"line 2 +api\.lease\.renewAfter: must be less than duration"):
        load({"api": Api}, Source("cloud.yaml", "api:\n  lease: {duration: 5s}\n"))


@given(st.text(max_size=200))
def test_no_text_makes_it_fail_in_any_other_way(text: str) -> None:
    try:
        read(text)
    except ConfigError as error:
        assert error.problems  # noqa: PT017 - most texts are configuration, and then nothing is raised


@given(st.floats(0.001, 10_000).map(lambda seconds: round(seconds, 3)), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_a_duration_is_what_was_written(number: float, unit: str) -> None:
    factor = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[unit]
    assert Duration.parse(f"{number:f}{unit}") == pytest.approx(number * factor)


@pytest.mark.parametrize(
    ("seconds", "said"), [(90, "90s"), (120, "2m"), (3600, "1h"), (7 * 86400, "7d"), (0.25, "0.25s"), (0, "0s")]
)
def test_a_duration_is_told_as_it_would_be_written(seconds: float, said: str) -> None:
    assert Duration(seconds).spoken() == said
    assert Duration.parse(said) == seconds


@pytest.mark.parametrize("wrong", ["", "s", "1 s", "-1s", "1sec", "1S", "1e3s", None, True, [], "٣s"])
def test_what_is_not_a_duration_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"duration|unit"):
        Duration.parse(wrong)


def test_the_sections_really_use_camel_case() -> None:
    assert [field.encode_name for field in msgspec.structs.fields(Websocket)] == ["port", "idleAfter"]
