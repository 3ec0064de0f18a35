"""What the frozen executable runs first."""

from beehive_cli import main

main()
