"""BytePS: data-parallel training over CPU summation servers.

Use it from a framework, for instance ``import byteps.torch as bps``; start a job with
``bps run -np 2 python train.py``, or with ``byteps.run(function, np=2)``.
"""

from byteps.__version__ import VERSION, __version__
from byteps.cli.function_job import FunctionError, run

__all__ = ["VERSION", "FunctionError", "__version__", "run"]
