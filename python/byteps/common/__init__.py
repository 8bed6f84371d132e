"""What all framework plugins share: the session, its errors, and the programs of the package."""

from byteps.common import errors
from byteps.common.errors import *  # noqa: F403

__all__: list[str] = []
__all__ += errors.__all__
