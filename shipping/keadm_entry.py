"""What the one file `keadm` runs first: the host's tool, and nothing of the cloud."""

import sys

from beehive_cli import started_as_python
from beehive_cli.keadm import run

if not started_as_python():
    sys.exit(run(sys.argv[1:]))
