"""Where tests find what lies outside of tests/: gallery, manual, and published data if there."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "models"
NONCONVEX = {"factorisation", "ranges", "robust_consensus"}
"""Models of the gallery that end stationary, and have no bound and no all-in-one solve by DCP."""
MANUAL = ROOT / "notebooks" / "manual"
DATA = Path(os.environ.get("DALD_DATA") or ROOT.parent / "shared" / "data")
"""Read when tests are collected: later some hide the variable."""
