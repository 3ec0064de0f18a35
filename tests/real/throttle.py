"""A TCP relay in threads that lets only so many bytes a second through, towards the port that it stands for."""

import contextlib
import socket
import threading
import time


class Throttle:
    """Listens on a port of its own. `rate` can be changed at any time; 0: nothing passes."""

    def __init__(self, rate: float, address: str = "127.0.0.1") -> None:
        self.rate = rate
        self.passed = 0
        self._target = 0
        self._listener = socket.create_server(
            (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET
        )
        self._open: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []

    def through(self, port: int) -> int:
        """The port by which `port` is reached from now on."""
        self._target = port
        self._begin(self._accept)
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """End all connections and wait for the threads."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(5)

    def _begin(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.append(near)
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                self._open.append(far)
                self._begin(self._pump, near, far, True)
                self._begin(self._pump, far, near, False)

    def _pump(self, source: socket.socket, sink: socket.socket, slowly: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(16_384):
                while slowly and not self.rate:
                    time.sleep(0.05)
                sink.sendall(chunk)
                if slowly:
                    self.passed += len(chunk)
                    time.sleep(len(chunk) / self.rate if self.rate else 0)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
