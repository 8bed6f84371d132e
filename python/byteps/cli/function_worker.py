"""A worker of `byteps.run`: calls the function and leaves its result in a file."""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from pathlib import Path

import cloudpickle

from byteps.cli.function_job import FUNCTION_FILE, error_file, result_file
from byteps.common.errors import EvictedError, PeerLostError, ShutdownError, UnavailableError

_HEARD = (EvictedError, PeerLostError, ShutdownError, UnavailableError)


def _write(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(data)
    draft.rename(path)


def main() -> None:
    """Call the function."""
    folder, rank = Path(sys.argv[1]), int(os.environ["BYTEPS_LOCAL_RANK"])
    try:
        function, args, kwargs = pickle.loads((folder / FUNCTION_FILE).read_bytes())
        result = cloudpickle.dumps(function(*args, **kwargs))
    except Exception as error:
        what = traceback.format_exception_only(type(error), error)[-1].strip()
        told = {
            "rank": rank,
            "what": what,
            "heard": isinstance(error, _HEARD),
            "traceback": traceback.format_exc(),
        }
        _write(folder / error_file(rank), json.dumps(told).encode())
        raise
    _write(folder / result_file(rank), result)


if __name__ == "__main__":
    main()
