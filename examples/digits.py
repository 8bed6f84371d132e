"""What the examples `*_digits.py` of several frameworks share: images and command line."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TRAINED_ON = 1472  # of 1797 images; the others are for the test
BATCH = 64  # of all workers together


def load_data(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the images, 64 numbers each, in a fixed random order, and what they show."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    return (digits.data[order] / 16).astype(dtype), digits.target[order]


def arguments_of(text: str | None) -> argparse.Namespace:
    """Return what the user wants of the program that `text` describes."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--alone", action="store_true", help="one process, without byteps")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument(
        "--float64",
        dest="dtype",
        action="store_const",
        const="float64",
        default="float32",
        help="train in double precision",
    )
    parser.add_argument("--weights", type=Path, help="where rank 0 saves the weights")
    return parser.parse_args()
