"""BytePS: data-parallel training over CPU summation servers.

Use it from a framework, for instance ``import byteps.torch as bps``; start a job with
``bps run -np 2 python train.py``, or with ``byteps.run(function, np=2)``.
"""

from typing import TYPE_CHECKING

from byteps.__version__ import VERSION, __version__

__all__ = ["VERSION", "FunctionError", "__version__", "run"]

if TYPE_CHECKING:
    from byteps.cli.function_job import FunctionError, run
else:

    def __getattr__(name):
        """Import what starts a job when a program asks for it: most programs are in a job."""
        if name not in ("FunctionError", "run"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from byteps.cli import function_job

        return getattr(function_job, name)

    def __dir__():
        return sorted({*globals(), *__all__})
