"""BytePS: data-parallel training over CPU summation servers.

Use it from a framework, for instance ``import byteps.torch as bps``; start a job with
``bps run -np 2 python train.py``.
"""

from byteps.__version__ import VERSION, __version__

__all__ = ["VERSION", "__version__"]
