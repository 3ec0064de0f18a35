"""Which machine a program is for."""

import sys
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.errors import Refused
from modules.upgrader.images.elf import HEADER_SIZE, check_elf, machine
from tests.modules.upgrader.images.building import MACHINES, program


@pytest.mark.parametrize("architecture", MACHINES)
@pytest.mark.parametrize("host", MACHINES)
@pytest.mark.parametrize("kind", [2, 3])
def test_a_program_runs_on_its_own_architecture_only(architecture: str, host: str, kind: int) -> None:
    head = program(architecture, kind=kind)[:HEADER_SIZE]
    if architecture == host:
        check_elf(head, "/keadm", host)
        return
    with pytest.raises(Refused, match=f"/keadm in the image is built for {architecture}, this host is {host}"):
        check_elf(head, "/keadm", host)


def test_variants_have_the_same_machine() -> None:
    check_elf(program("arm"), "/keadm", "arm/v7")


def test_the_interpreter_that_runs_this_is_known() -> None:
    head = Path(sys.executable).resolve().read_bytes()[:HEADER_SIZE]
    found = machine(head)
    assert found is not None
    assert found.bits == 64


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"#!/bin/sh\necho hello, I am a script",
        b"\x7fELF",
        program()[: HEADER_SIZE - 1],
        program(kind=1),
        program(kind=4),
    ],
)
def test_text_objects_and_cores_are_no_programs(head: bytes) -> None:
    with pytest.raises(Refused, match="is not an ELF executable"):
        check_elf(head, "/keadm", "amd64")


@pytest.mark.parametrize(("bits", "order"), [(1, "little"), (2, "big"), (1, "big")])
def test_word_size_and_byte_order_count_too(bits: int, order: Literal["little", "big"]) -> None:
    """x32 has the machine number of amd64; only the word size tells."""
    ends = (2).to_bytes(2, order) + (62).to_bytes(2, order)
    head = b"\x7fELF" + bytes([bits, {"little": 1, "big": 2}[order], 1]) + bytes(9) + ends
    with pytest.raises(Refused, match=r"is built for ELF machine 62 \("):
        check_elf(head, "/keadm", "amd64")


def test_an_unknown_architecture_is_said() -> None:
    with pytest.raises(Refused, match="Programs for mips64 cannot be told"):
        check_elf(program(), "/keadm", "mips64")


@given(st.binary(max_size=40))
def test_any_bytes_are_told(head: bytes) -> None:
    found = machine(head)
    assert found is None or head.startswith(b"\x7fELF")
