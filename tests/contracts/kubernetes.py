"""The contract of a Kubernetes API server, as far as Beehive and kubectl use one.

A test module gives the fixtures ``api`` (`tests.contracts.api.Api`, with `tests.contracts.rollout.CRD` and Beehive's
own CRD) and ``forget`` (makes the server forget its history), and a class that inherits this one.
"""

from tests.contracts.kubernetes_history import History
from tests.contracts.kubernetes_jobs import Jobs
from tests.contracts.kubernetes_lists import Lists
from tests.contracts.kubernetes_objects import Objects
from tests.contracts.kubernetes_patches import Patches
from tests.contracts.kubernetes_rules import Rules
from tests.contracts.kubernetes_status import Statuses
from tests.contracts.kubernetes_surface import Surface
from tests.contracts.kubernetes_watches import Watches


class KubernetesContract(Objects, Statuses, Patches, Rules, Lists, Watches, History, Surface, Jobs):
    """Everything."""
