"""The program that the demo's hosts run and upgrade: a stand-in for EdgeCore, small but real.

It answers `--version`, keeps a diary of its starts, and refuses to start on data that does not suit it, as a real
program does that finds a database of a newer schema.
"""

import sys
from pathlib import Path

_SOURCE = """#!{python} -IS
# A stand-in for EdgeCore: answers --version, keeps a diary of its starts, runs until SIGTERM.
import os, signal, sys, time
VERSION, NEWEST_SCHEMA = {version!r}, {schema}
if sys.argv[1:] == ["--version"]:
    print(VERSION)
    sys.exit(0)
state = sys.argv[sys.argv.index("--state") + 1]
with open(os.path.join(state, "starts.log"), "a") as diary:
    diary.write(f"{{VERSION}} pid {{os.getpid()}} at {{time.time():.3f}}\\n")
with open(os.path.join(state, "schema")) as file:
    schema = int(file.read())
if schema > NEWEST_SCHEMA:
    time.sleep(0.2)
    sys.exit(f"cannot open database: schema {{schema}}")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while True:
    signal.pause()
"""


def program(version: str, newest_schema: int) -> bytes:
    """An executable of this version that opens databases up to this schema."""
    python = Path(sys.executable).resolve()
    return _SOURCE.format(python=python, version=version, schema=newest_schema).encode()
