"""`python -m beehive_cli`, for where no script was installed."""

from beehive_cli import main

main()
