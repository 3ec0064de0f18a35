"""`beehive demo`."""

import sys

import click

from modules.demo.scene import SCENES


@click.command()
@click.option(
    "--scene", type=click.Choice(list(SCENES)), default="rollout", show_default=True,
    help="rollout: success, rollback, offline and a power cut; budget: a bad rollout stops itself.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one object on one line at the end, for programs.")
@click.option("--keep", is_flag=True, help="Leave it running until Ctrl-C, with a kubeconfig.")
def demo(scene: str, as_json: bool, keep: bool) -> None:
    """Upgrade five hosts on this machine: no cluster, no root.

    An embedded Kubernetes API, the cloud side, five edge hosts in a temporary directory, each with its own agent and
    program as real processes, and a local image source.
    """
    from modules.demo.run import run  # noqa: PLC0415 - rich and httpx only where they are shown

    sys.exit(run(scene, as_json=as_json, keep=keep))
