"""The names of files that contain tests of policies."""

from typing import Final

PATTERNS: Final = ("test_policies.yaml", "test_*.policies.yaml")
