"""Adds the directory of the plugin's file to the import path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "complete"))
