"""What both a real part and its stand-in must do: each test class here is run on both."""

import pytest

pytest.register_assert_rewrite(
    "tests.contracts.kubernetes_history",
    "tests.contracts.kubernetes_lists",
    "tests.contracts.kubernetes_objects",
    "tests.contracts.kubernetes_patches",
    "tests.contracts.kubernetes_rules",
    "tests.contracts.kubernetes_status",
    "tests.contracts.kubernetes_surface",
    "tests.contracts.kubernetes_watches",
    "tests.contracts.kubernetes_jobs",
    "tests.contracts.kubernetes_kubectl",
    "tests.contracts.api",
)
