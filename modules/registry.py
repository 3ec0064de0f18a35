"""The only place that knows all modules: what they are called, where they run, and the order in which they start.

Stopping is the reverse. `informer` comes first, because everybody asks it; the hubs come last, because nobody should be
heard before there is somebody who listens.
"""

from beehive.module import ModuleSpec
from modules import admission, cloudhub, control, digests, edgehub, etcdmanager, informer, taskmanager, upgrader

MODULES = (
    ModuleSpec("informer", informer.Config, cloud=informer.make, inbox=1024),
    ModuleSpec("etcdmanager", etcdmanager.Config, cloud=etcdmanager.make, inbox=64, optional=True),
    ModuleSpec("admission", admission.Config, cloud=admission.make, inbox=64, optional=True),
    ModuleSpec("digests", digests.Config, cloud=digests.make, inbox=64, optional=True),
    ModuleSpec("upgrader", upgrader.Config, edge=upgrader.make, inbox=64),
    ModuleSpec("taskmanager", taskmanager.Config, cloud=taskmanager.make_cloud, edge=taskmanager.make_edge, inbox=1024),
    ModuleSpec("cloudhub", cloudhub.Config, cloud=cloudhub.make, inbox=1024),
    ModuleSpec("edgehub", edgehub.Config, edge=edgehub.make, inbox=256),
    ModuleSpec("control", control.Config, edge=control.make, inbox=16, optional=True),
)
