"""The informer on the embedded API server."""

from tests.contracts.informer import InformerContract


class TestOnTheEmbeddedServer(InformerContract):
    """The same tests as tests/real/test_informer.py on kube-apiserver."""
