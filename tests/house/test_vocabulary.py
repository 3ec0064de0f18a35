"""Every message: one tag, frozen, plain, and a docstring that says who says it and what to do if it is lost."""

import importlib
import inspect
import pkgutil
from collections import Counter

import pytest

import beehive.messages
from beehive.message import Command, Event, Message, Request

KINDS = sorted(
    {
        one
        for found in pkgutil.walk_packages(beehive.messages.__path__, "beehive.messages.")
        for one in vars(importlib.import_module(found.name)).values()
        if inspect.isclass(one) and issubclass(one, Message) and one not in (Message, Command, Event, Request)
    },
    key=lambda one: one.__name__,
)


def test_there_is_a_vocabulary() -> None:
    assert len(KINDS) > 30


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.__name__)
class TestEachMessage:
    def test_is_frozen_keyword_only_and_outside_the_collector(self, kind: type[Message]) -> None:
        settings = kind.__struct_config__
        assert settings.frozen
        assert not settings.gc
        assert len(inspect.signature(kind).parameters) == sum(
            one.kind is inspect.Parameter.KEYWORD_ONLY for one in inspect.signature(kind).parameters.values()
        )

    def test_is_tagged_with_its_topic_and_name(self, kind: type[Message]) -> None:
        topic = "runtime" if kind.__module__ == "beehive.message" else kind.__module__.rpartition(".")[2]
        kebab = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).lstrip("-")
        assert kind.__struct_config__.tag == f"{topic}.{kebab}"

    def test_says_what_to_do_if_it_is_lost(self, kind: type[Message]) -> None:
        text = inspect.getdoc(kind) or ""
        assert issubclass(kind, Request) or "lost" in text, text


def test_tags_are_unique() -> None:
    assert [tag for tag, count in Counter(kind.__struct_config__.tag for kind in KINDS).items() if count > 1] == []
