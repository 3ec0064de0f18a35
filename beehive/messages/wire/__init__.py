"""The wire: KubeEdge's message JSON <-> typed messages. Pure.

One websocket text frame is one JSON object (spec/kubeedge.md 4.4, 4.5, 5.3): `header`, `route`, `content`, in the order
and with the escapes of Go's encoder, and a newline. Between our own ends one more top-level key, `beehive`, holds the
whole typed message; Go ignores it, and `content` stays exactly what a KubeEdge peer expects. So a field that is added
to a message in `tasks.py` needs a default, or an older end refuses the newer one's frames.

| Typed message | operation | content | `beehive` |
|---|---|---|---|
| StartTask | `Check` | the job's spec in KubeEdge's keys, image never empty, no node list, host or token | yes |
| TaskReport | `UpdateNodeActionStatus` | KubeEdge's five keys, from the action that ended last | yes |
| ReportSeen | `response`, `parent_msg_id` | `"OK"` | yes |
| CancelTask SendSnapshot Hello | their own names | null; never to a peer without `Beehive-Protocol: 1` | yes |

Without the key (a **legacy** peer) a report is a TaskReport with uid `""`, attempt -1 and revision 0; a task is a
StartTask whose uid is its message's id, attempt -1, with a lease that does not end. `is_legacy` tells.

What cannot be used: reading raises `Refused` with a sentence for what is not JSON, larger than 1 MiB, or one of our own
operations in the wrong shape; every other operation is an `Other`, never an error. What then happens to the connection
is for the hubs to say (`modules/cloudhub/peer.py`, `modules/edgehub/session.py`).
"""

from beehive.messages.wire.frame import (
    CONTROL,
    ERROR,
    KEEPALIVE,
    MOST_BYTES,
    REPORT,
    RESPONSE,
    Frame,
    Header,
    Other,
    Read,
    Route,
    encode,
)
from beehive.messages.wire.kubeedge import LEGACY_ATTEMPT, LEGACY_UID, NO_LEASE, RESOURCE, Task, is_name, task_of
from beehive.messages.wire.posts import TOO_LARGE, Post, task_status, verdict
from beehive.messages.wire.protocol import CA_HEADER, PROTOCOL, PROTOCOL_HEADER, spread_of, spread_reason
from beehive.messages.wire.reading import FromCloud, FromEdge, from_cloud, from_edge, is_legacy
from beehive.messages.wire.writing import (
    answer,
    keepalive,
    legacy_status,
    to_cloud,
    to_edge,
    to_legacy_cloud,
    to_legacy_edge,
)

__all__ = [
    "CA_HEADER",
    "CONTROL",
    "ERROR",
    "KEEPALIVE",
    "LEGACY_ATTEMPT",
    "LEGACY_UID",
    "MOST_BYTES",
    "NO_LEASE",
    "PROTOCOL",
    "PROTOCOL_HEADER",
    "REPORT",
    "RESOURCE",
    "RESPONSE",
    "TOO_LARGE",
    "Frame",
    "FromCloud",
    "FromEdge",
    "Header",
    "Other",
    "Post",
    "Read",
    "Route",
    "Task",
    "answer",
    "encode",
    "from_cloud",
    "from_edge",
    "is_legacy",
    "is_name",
    "keepalive",
    "legacy_status",
    "spread_of",
    "spread_reason",
    "task_of",
    "task_status",
    "to_cloud",
    "to_edge",
    "to_legacy_cloud",
    "to_legacy_edge",
    "verdict",
]
