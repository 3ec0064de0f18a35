"""Is this file a program for this machine? Read from the first bytes of its ELF header. Pure.

A tag that held the wrong architecture has stopped real nodes (spec/users.md 48): checked before anything is touched.
"""

from typing import Final, NamedTuple

from beehive.errors import Refused

HEADER_SIZE: Final = 20
_MAGIC: Final = b"\x7fELF"
_PROGRAM_TYPES: Final = (2, 3)  # ET_EXEC, ET_DYN (position independent)


class Machine(NamedTuple):
    """The three fields of an ELF header that say which processors run it."""

    bits: int
    order: str
    number: int
    """`e_machine`."""


_MACHINES: Final[dict[str, Machine]] = {
    "386": Machine(32, "little", 3),
    "amd64": Machine(64, "little", 62),
    "arm": Machine(32, "little", 40),
    "arm64": Machine(64, "little", 183),
    "loong64": Machine(64, "little", 258),
    "ppc64le": Machine(64, "little", 21),
    "riscv64": Machine(64, "little", 243),
    "s390x": Machine(64, "big", 22),
}


def machine(header: bytes) -> Machine | None:
    """Read the machine of an ELF program from its first 20 bytes; None: not an ELF program."""
    bits = {1: 32, 2: 64}.get(header[4] if len(header) >= HEADER_SIZE else 0)
    order = {1: "little", 2: "big"}.get(header[5] if len(header) >= HEADER_SIZE else 0)
    if bits is None or order is None or not header.startswith(_MAGIC):
        return None
    kind = int.from_bytes(header[16:18], "little" if order == "little" else "big")
    number = int.from_bytes(header[18:20], "little" if order == "little" else "big")
    return Machine(bits, order, number) if kind in _PROGRAM_TYPES else None


def check_elf(header: bytes, path: str, architecture: str) -> None:
    """Refuse a file that the kernel of this host would not run. `architecture` as images spell it, `arm/v7`."""
    wanted = _MACHINES.get(architecture.partition("/")[0])
    if wanted is None:
        raise Refused(f"Programs for {architecture} cannot be told from others; set this file's check to 'any'.")
    found = machine(header)
    if found is None:
        raise Refused(f"{path} in the image is not an ELF executable; it cannot run on this host.")
    if found != wanted:
        raise Refused(f"{path} in the image is built for {_name(found)}, this host is {architecture}.")


def _name(found: Machine) -> str:
    known = (name for name, machine_ in _MACHINES.items() if machine_ == found)
    return next(known, f"ELF machine {found.number} ({found.bits} bit, {found.order}-endian)")
