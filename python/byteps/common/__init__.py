"""What all framework plugins share: the session, its errors, and the programs of the package."""

from byteps.common import errors
from byteps.common.errors import *  # noqa: F403
from byteps.common.extension import check_extension

__all__ = ["check_extension"]
__all__ += errors.__all__
