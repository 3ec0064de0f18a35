"""`python -m modules.upgrader.tool`: the tool where no `keadm` is installed."""

import sys

from modules.upgrader.tool import main

sys.exit(main(sys.argv[1:]))
