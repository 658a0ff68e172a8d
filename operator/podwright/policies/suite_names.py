"""How files are named that have tests of policies."""

from typing import Final

PATTERNS: Final = ("test_policies.yaml", "test_*.policies.yaml")
