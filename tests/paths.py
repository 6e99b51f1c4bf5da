"""Where tests find what lies outside of tests/: the gallery, and the published data if present."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "models"
DATA = Path(os.environ.get("DALD_DATA") or ROOT.parent / "shared" / "data")
"""Read when tests are collected: later some hide the variable."""
