"""What every adapter exports: joining and leaving a job, process sets, ways to combine, errors."""

from byteps.common import build, errors
from byteps.common.build import *  # noqa: F403
from byteps.common.default import (
    add_process_set,
    cross_rank,
    cross_size,
    declare,
    get_pushpull_speed,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    members,
    rank,
    remove_process_set,
    resume,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    suspend,
)
from byteps.common.errors import *  # noqa: F403
from byteps.common.process_sets import ProcessSet, global_process_set
from byteps.common.reduction import Adasum, Average, Max, Min, Product, ReduceOp, Sum

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "add_process_set",
    "cross_rank",
    "cross_size",
    "declare",
    "get_pushpull_speed",
    "global_process_set",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "members",
    "rank",
    "remove_process_set",
    "resume",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "suspend",
]
__all__ += build.__all__
__all__ += errors.__all__
