"""Paths inside the repository that tests read."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"
