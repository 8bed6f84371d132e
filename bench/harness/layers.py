"""The layers of real models: what each computes beside the others, and its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from harness.shapes import load_shapes

# The side of a convolution's output, for images of 224 x 224, by the beginning of its name.
SIDES = {
    "vgg16": {
        "features.0": 224,
        "features.2": 224,
        "features.5": 112,
        "features.7": 112,
        "features.10": 56,
        "features.12": 56,
        "features.14": 56,
        "features.17": 28,
        "features.19": 28,
        "features.21": 28,
        "features.24": 14,
        "features.26": 14,
        "features.28": 14,
    },
    "resnet50": {
        "conv1": 112,
        "layer1": 56,
        "layer2.0.conv1": 56,
        "layer2": 28,
        "layer3.0.conv1": 28,
        "layer3": 14,
        "layer4.0.conv1": 14,
        "layer4": 7,
    },
}
# A backward pass computes two gradients, of the weights and of the input.
BACKWARD_PARTS = 2


@dataclass
class LayerCost:
    """One layer of an emulated model."""

    name: str
    elements: int
    multiplications: int  # of one image's forward pass


def layer_costs(model: str) -> list[LayerCost]:
    """Return the layers that have a weight; biases and norms go with the weight before them."""
    layers: list[LayerCost] = []
    for name, shape in load_shapes(model).tensors:
        elements = math.prod(shape)
        if len(shape) == 1:
            layers[-1].elements += elements
        else:
            layers.append(LayerCost(name, elements, elements * _side(model, name) ** 2))
    return layers


def _side(model: str, name: str) -> int:
    found = [prefix for prefix in SIDES[model] if name.startswith(prefix + ".")]
    return SIDES[model][max(found, key=len)] if found else 1


def write_layers(model: str, compute_s: float, path: Path) -> None:
    """Write the lines that emulated_worker.py reads, for steps that compute so long."""
    layers = layer_costs(model)
    unit = compute_s * 1e6 / sum(layer.multiplications for layer in layers) / (1 + BACKWARD_PARTS)
    lines = []
    for layer in layers:
        forward = layer.multiplications * unit
        lines.append(f"{layer.name} {layer.elements} {forward:.1f} {forward * BACKWARD_PARTS:.1f}")
    path.write_text("\n".join(lines) + "\n")
