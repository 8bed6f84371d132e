"""Start the programs that a JSON file lists, and end with the last of them."""

import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the plan in argv[1]."""
    programs = json.loads(Path(sys.argv[1]).read_text())
    started = [
        subprocess.Popen(program["command"], env={**os.environ, **program["environment"]})
        for program in programs
    ]
    for process in started:
        process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
