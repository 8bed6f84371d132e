"""Importing this module runs the server or the scheduler (by DMLC_ROLE) in this process.

That is how programs for the original start a role by hand: ``python -c 'import byteps.server'``.
The commands ``bps server`` and ``bps scheduler`` do the same.
"""

from byteps.common.environment import role
from byteps.common.job.executables import exec_program

exec_program(role(default="server"))
