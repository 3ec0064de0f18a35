"""What a host's owner allows."""

import pytest

from beehive.errors import Refused
from modules.upgrader.images.policy import KUBEEDGE_ONLY, check_image

PIN = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "allow", "allowed"),
    [
        ("", KUBEEDGE_ONLY, True),
        ("kubeedge/installation-package:v1", KUBEEDGE_ONLY, True),
        ("docker.io/kubeedge/installation-package", KUBEEDGE_ONLY, True),
        ("kubeedge/other", KUBEEDGE_ONLY, False),
        ("evil.example/kubeedge/installation-package", KUBEEDGE_ONLY, False),
        ("kubeedge/installation-package/x", KUBEEDGE_ONLY, False),
        ("kubeedge/x", ("kubeedge/*",), True),
        ("evil.example/kubeedge/x", ("kubeedge/*",), False),
        ("r.example/a/b", ("r.example/*",), False),
        ("r.example/a/b", ("r.example/**",), True),
        ("r.example.evil/a", ("r.example/**",), False),
        ("xr.example/a", ("r.example/**",), False),
        ("rxexample.com/a", ("r.example.com/**",), False),
        ("eu.r.example/a", ("*.r.example/**",), True),
        ("r.example:5000/a", ("r.example/**",), False),
        ("r.example:5000/a", ("r.example:5000/a",), True),
        ("localhost/a", ("localhost/*",), True),
        ("any.example/a/b", ("**",), False),
        ("any.example/a/b", ("**/**",), True),
        ("kubeedge/x", (), False),
    ],
)
def test_patterns(image: str, allow: tuple[str, ...], allowed: bool) -> None:
    if allowed:
        assert check_image(image, "", allow=allow, require_digest=False).name.endswith(image.partition(":v")[0])
        return
    with pytest.raises(Refused, match=r"This host does not allow images from .*; allowed: .*images.allow"):
        check_image(image, PIN, allow=allow, require_digest=False)


def test_a_host_may_insist_on_a_digest() -> None:
    with pytest.raises(Refused, match=r"only by digest .*imageDigestGatter"):
        check_image("", "", allow=KUBEEDGE_ONLY, require_digest=True)
    assert check_image("", PIN, allow=KUBEEDGE_ONLY, require_digest=True).host == "docker.io"


def test_what_is_no_image_is_not_allowed_by_any_pattern() -> None:
    with pytest.raises(Refused, match="is not the name of an image"):
        check_image("a/../b", PIN, allow=("**/**",), require_digest=False)
