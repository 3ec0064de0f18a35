"""The demo's cloud: its ports are its own from when they were asked for."""

import gc
import socket
from pathlib import Path

import pytest

from modules.demo.cloud import Cloud


def test_a_port_is_the_clouds_before_it_listens_and_between_two_starts(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path, {})
    assert cloud.websocket_port != cloud.https_port
    for port in (cloud.websocket_port, cloud.https_port):
        for _ in range(2):
            with socket.socket() as another, pytest.raises(OSError, match="Address already in use"):
                another.bind(("127.0.0.1", port))
            with (
                socket.create_server(("127.0.0.1", port)) as listening,
                socket.create_connection(listening.getsockname(), timeout=5),
            ):
                pass


def test_the_ports_are_given_back_with_it(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path, {})
    port = cloud.websocket_port
    del cloud
    gc.collect()
    with socket.socket() as another:
        another.bind(("127.0.0.1", port))
