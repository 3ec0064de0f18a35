"""The program that the demo's hosts run and upgrade: a stand-in for EdgeCore, small but real.

It answers `--version`, keeps a diary of its starts, and refuses to start on data that does not suit it, as a real
program does that finds a database of a newer schema. A script of the plain shell: a host asks a new program for its
version as a user who may read nothing else, this installation's Python included.
"""

_SOURCE = """#!/bin/sh
# A stand-in for EdgeCore: answers --version, keeps a diary of its starts, runs until SIGTERM.
if [ "$1" = --version ]; then echo {version}; exit 0; fi
state=$2
echo "{version} pid $$ at $(date +%s)" >> "$state/starts.log"
read -r schema < "$state/schema"
if [ "$schema" -gt {schema} ]; then
    sleep 0.2
    echo "cannot open database: schema $schema" >&2
    exit 1
fi
trap 'exit 0' TERM
while :; do sleep 1 & wait $!; done
"""


def program(version: str, newest_schema: int) -> bytes:
    """An executable of this version that opens databases up to this schema; it is started with `--state DIRECTORY`."""
    return _SOURCE.format(version=version, schema=newest_schema).encode()
