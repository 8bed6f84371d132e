"""The gradients of real models: names and shapes, in the order of the layers."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

SHAPES = Path(__file__).resolve().parents[1] / "shapes"
FLOAT_BYTES = 4


@dataclass
class Shapes:
    """One model."""

    model: str
    tensors: list[tuple[str, list[int]]]

    @property
    def nbytes(self) -> int:
        """Return the bytes of all gradients as float32."""
        return sum(FLOAT_BYTES * math.prod(shape) for _, shape in self.tensors)


def shape_names() -> list[str]:
    """Return the models that are there."""
    return sorted(path.stem for path in SHAPES.glob("*.json"))


def load_shapes(model: str) -> Shapes:
    """Read one model's list."""
    data = json.loads((SHAPES / f"{model}.json").read_text())
    return Shapes(data["model"], [(name, shape) for name, shape in data["tensors"]])


def write_lines(shapes: Shapes, path: Path) -> None:
    """Write the lines that bench_push_pull and gloo_bench.py read."""
    lines = [f"{name} {math.prod(shape)}" for name, shape in shapes.tensors]
    path.write_text("\n".join(lines) + "\n")
