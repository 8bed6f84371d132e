"""A worker that runs random cases and compares every result: lane.py starts it.

It prints a line of JSON for each case that is wrong, and one at its end. A case that ends in an
exception ends the worker, because the ranks may differ then.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from random_collectives.cases import CASES_OF_SETS, Case, make_case, sets_of
from random_collectives.driver import Driver, Given, Got, given_by
from random_collectives.oracle import ALIKE, Oracle, difference

TELL_EVERY_S = 5.0


def make_driver(adapter: str) -> Driver:
    """Return the driver of an adapter, whose framework is imported now."""
    if adapter == "numpy":
        from random_collectives.drive_handles import NumpyDriver

        return NumpyDriver()
    if adapter == "torch":
        from random_collectives.drive_handles import TorchDriver

        return TorchDriver()
    if adapter == "c10d":
        from random_collectives.drive_c10d import C10dDriver

        return C10dDriver()
    if adapter == "tensorflow":
        from random_collectives.drive_tensorflow import TensorflowDriver

        return TensorflowDriver()
    from random_collectives.drive_jax import JaxDriver

    return JaxDriver()


def wrong_in_call(oracle: Oracle, case: Case, index: int, rank: int, given: Given, got: Got) -> str:
    """Return what is wrong with what a rank has got of a call; nothing if all is right."""
    call = case.calls[index]
    wanted = oracle.expected(case, index, rank)
    if len(got.tensors) != len(wanted.tensors):
        return f"{len(got.tensors)} tensors came, not {len(wanted.tensors)}"
    for i, (found, right) in enumerate(zip(got.tensors, wanted.tensors, strict=True)):
        text = difference(found, right, call.tensors[i].dtype)
        if text:
            return f"tensor {i} {text}"
    if wanted.counts is not None and got.counts != list(wanted.counts):
        return f"the rows of the ranks are {got.counts}, not {list(wanted.counts)}"
    if got.value != wanted.value:
        return f"the object is {str(got.value)[:200]}, not {str(wanted.value)[:200]}"
    for laid in given.laid:
        text = laid.damage(call.in_place)
        if text:
            return text
    return ""


class Worker:
    """Runs cases on one rank."""

    def __init__(self, driver: Driver, oracle: Oracle, adapter: str, digests: Path) -> None:
        self._driver = driver
        self._oracle = oracle
        self._adapter = adapter
        self._digests = digests

    def run(self, first: int, last: int) -> int:
        """Run the cases from `first` to before `last`; return how many were wrong."""
        driver, seed = self._driver, self._oracle.seed
        told, wrong = time.monotonic(), 0
        with self._digests.open("w") as digests:
            for number in range(first, last):
                if number == first or number % CASES_OF_SETS == 0:
                    driver.open_sets(sets_of(seed, number, driver.size))
                case = make_case(seed, number, self._adapter, driver.size)
                texts, results = self._case(case)
                if texts:
                    wrong += 1
                    tell(wrong=number, rank=driver.rank, what=texts, case=repr(case)[:4000])
                digests.write(f"{number} {results}\n")
                digests.flush()
                if (number + 1) % CASES_OF_SETS == 0 or number + 1 == last:
                    driver.close_sets()
                if driver.rank == 0 and time.monotonic() > told + TELL_EVERY_S:
                    told = time.monotonic()
                    tell(at=number)
        return wrong

    def _case(self, case: Case) -> tuple[list[str], str]:
        """Run a case; return what is wrong, and a digest of what all ranks must have alike."""
        oracle, rank = self._oracle, self._driver.rank
        given = {i: given_by(oracle, case, i, rank) for i in case.orders[rank]}
        try:
            found = self._driver.run(case, given)
        except BaseException as error:
            where = "".join(traceback.format_exception(error)[-6:])
            tell(wrong=case.number, rank=rank, what=[where], case=repr(case)[:4000], is_end=True)
            raise SystemExit(1) from None
        texts = []
        digests = []
        for index in sorted(found):
            text = wrong_in_call(oracle, case, index, rank, given[index], found[index])
            if text:
                texts.append(f"call {index}, {case.calls[index].kind}: {text}")
            if case.calls[index].kind in ALIKE:
                digest = hashlib.blake2b(digest_size=8)
                for array in found[index].tensors:
                    digest.update(array.tobytes())
                digests.append(f"{index}:{digest.hexdigest()}")
        return texts, " ".join(digests)


def tell(**what: object) -> None:
    """Print a line for lane.py, with one write: ranks of a machine share their output."""
    sys.stdout.write(f"collectives {json.dumps(what)}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--machines", type=json.loads, required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--last", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    driver = make_driver(args.adapter)
    driver.begin()
    machines = tuple(tuple(ranks) for ranks in args.machines)
    oracle = Oracle(args.seed, machines, cuts_averages=args.adapter != "c10d")
    digests = args.folder / f"digests.{driver.rank}"
    wrong = Worker(driver, oracle, args.adapter, digests).run(args.first, args.last)
    driver.meet()
    driver.end()
    tell(rank=driver.rank, done=args.last - args.first, wrong_here=wrong)


if __name__ == "__main__":
    main()
