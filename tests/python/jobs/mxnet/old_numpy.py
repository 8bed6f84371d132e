"""Gives numpy the names back that MXNet 1.9.1 uses and numpy 1.24 has dropped. Import it before
mxnet. Only tests do this: MXNet's users have the numpy that it was made for."""

from __future__ import annotations

import numpy as np

for _name, _kind in (("bool", np.bool_), ("object", object), ("int", int), ("float", float),
                     ("complex", complex), ("str", str)):  # fmt: skip
    if _name not in np.__dict__:
        setattr(np, _name, _kind)
