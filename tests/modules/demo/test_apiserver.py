"""The embedded API server keeps the contract of a Kubernetes API server."""

from tests.contracts.kubernetes import KubernetesContract


class TestEmbedded(KubernetesContract):
    """In memory, over plain HTTP."""
