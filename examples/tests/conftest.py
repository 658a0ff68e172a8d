"""Lets the tests find the plugin's file, as PODWRIGHT_PLUGIN_DIRS lets the operator."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "complete"))
