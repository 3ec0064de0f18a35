"""`beehive demo`."""

import sys

import click

from modules.demo.scenes import SCENES


@click.command()
@click.option(
    "--scene", type=click.Choice(list(SCENES)), default="rollout", show_default=True,
    help="What happens; see below.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one object on one line at the end, for programs.")
@click.option("--keep", is_flag=True, help="Leave it running until Ctrl-C, with a kubeconfig.")
def demo(scene: str, as_json: bool, keep: bool) -> None:
    """Upgrade some hosts on this machine: no cluster, no root.

    An embedded Kubernetes API, the cloud side, three to five edge hosts in a temporary directory, each with its own
    agent and program as real processes, and a local image source. A scene takes less than a minute.

    \b
    rollout    success, rollback, a host that is offline, a power cut
    upgrade    all goes well
    rollback   one host cannot run the new version, and runs the old one again
    powercut   the power of one host is cut in the middle of its swap
    offline    one host is away; the job waits for it, and it comes back
    budget     a bad rollout stops itself
    abort      somebody aborts the job
    """
    from modules.demo.run import run  # noqa: PLC0415 - rich and httpx only where they are shown

    sys.exit(run(scene, as_json=as_json, keep=keep))
