"""ResNet-50 and VGG-16, as their papers describe them, for the synthetic benchmark."""

from __future__ import annotations

import torch
from torch import nn

RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width, number of blocks
EXPANSION = 4
VGG16_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # width, number of convolutions
VGG16_GRID = 7


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution that keeps the grid, apart from its stride, with its normalization."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.path = nn.Sequential(
            _convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            _convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            _convolution(width, outputs, 1),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else _convolution(inputs, outputs, 1, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the sum of both."""
        return torch.relu(self.path(images) + self.shortcut(images))


def resnet50(classes: int = 1000) -> nn.Module:
    """Return a ResNet-50: 25.6 million parameters, 161 tensors."""
    layers: list[nn.Module] = [_convolution(3, 64, 7, 2), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, padding=1))
    channels = 64
    for stage, (width, blocks) in enumerate(RESNET50_STAGES):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            layers.append(Bottleneck(channels, width, stride))
            channels = width * EXPANSION
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


def vgg16(classes: int = 1000) -> nn.Module:
    """Return a VGG-16: 138 million parameters, of which one tensor has 103 million."""
    layers: list[nn.Module] = []
    channels = 3
    for width, convolutions in VGG16_STAGES:
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(VGG16_GRID), nn.Flatten()]
    inputs = channels * VGG16_GRID**2
    for outputs in (4096, 4096):
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True), nn.Dropout()]
        inputs = outputs
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


MODELS = {"resnet50": resnet50, "vgg16": vgg16}
