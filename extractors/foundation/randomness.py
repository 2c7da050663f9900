"""Seeds that do not depend on order: every random choice is named, and its generator follows from the name."""

from __future__ import annotations

import hashlib

import numpy as np


def seed_for(*names: object) -> int:
    """A 32-bit seed that follows from the given names alone, e.g. ``seed_for(0, "control", "upos")``."""
    digest = hashlib.sha256("\x1f".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:4], "big")


def generator_for(*names: object) -> np.random.Generator:
    """A NumPy generator that follows from the given names alone."""
    return np.random.default_rng(seed_for(*names))
