"""What is asked: the manifest of one tag in one repository. Pure."""

from beehive.api.version import image_tag

_DEFAULT_PORT = ":443"


def address(host: str) -> str:
    """`host[:port]` in the one form in which hosts are compared: lower case, without the port of HTTPS."""
    return host.lower().removesuffix(_DEFAULT_PORT)


def path(image: str, version: str) -> str:
    """The path to ask for: the repository without its registry, its tag made from the version.

    As Docker reads names (spec/kubeedge.md 4.7, vector `rule_v1alpha1_image_repo`): a single word lies under
    `library/`; a tag or digest in `image` is overridden by the version.
    """
    return f"/v2/{repository(image)}/manifests/{image_tag(version)}"


def repository(image: str) -> str:
    """`kubeedge/installation-package` of `registry.io:5000/kubeedge/installation-package:v1`."""
    text = image.partition("@")[0]
    head, colon, tail = text.rpartition(":")
    if colon and "/" not in tail:
        text = head
    first, slash, rest = text.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        return rest
    return text if slash else f"library/{text}"
