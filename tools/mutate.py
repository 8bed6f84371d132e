"""Makes small wrong edits, one at a time, and sees whether a test notices.

    ./dev lane mutants            DEV_MUTANTS edits (60), spread over the folders
    python tools/mutate.py [--edits N] [--seed S] [--folder src/plan ...] [--only FILE ...]
                           [--again]

An edit that no test notices has survived: write the test that would have, delete the code, or, if
nobody could ever see the difference, add it to tools/mutants/equivalent.json with the reason in one
sentence. Works in a copy of the tree, build/mutants/tree; what was tried is kept in
build/mutants/trials.jsonl and not tried again by the same seed, so a campaign can go on after an
interruption. --only limits the edits to these files. --again tries only what survived there, after
tests were added.
"""

import argparse
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import util
from pathlib import Path

from mutants.campaign import AREAS, Area, Campaign, Trial, may_be_edited, read_known
from mutants.edits import Edit
from repo import ROOT

_COUNTED = ("caught", "survived", "equivalent")


def main() -> int:
    options = _options()
    areas = [area for area in AREAS if not options.folder or area.folder in options.folder]
    if not areas:
        folders = ", ".join(area.folder for area in AREAS)
        raise SystemExit(f"mutants: no such folder; there are: {folders}")
    scratch = ROOT / "build/mutants"
    campaign = Campaign(
        ROOT,
        scratch,
        sys.executable,
        options.jobs,
        known=read_known(ROOT / "tools/mutants/equivalent.json"),
    )
    kept = scratch / "trials.jsonl"
    before = _read(kept, options.seed)
    again = [t for t in before if t.outcome == "survived"] if options.again else []
    if any(area.pytest for area in areas):
        _make_site(campaign)
    campaign.prepare(areas)
    trials = {t.edit: t for t in before if t not in again}
    share = -(-options.edits // len(areas))
    with kept.open("a", encoding="utf-8") as out:
        for area in areas:
            for edit in _to_try(campaign, area, again if options.again else None, options):
                done = sum(
                    t.area == area.folder
                    and t.outcome in _COUNTED
                    and may_be_edited(t.edit.path, options.only)
                    for t in trials.values()
                )
                if done >= share and not options.again:
                    break
                if edit in trials:
                    continue
                trials[edit] = trial = campaign.run(area, edit)
                out.write(json.dumps({"seed": options.seed, **asdict(trial)}) + "\n")
                out.flush()
                _tell(trial)
    return _report(list(trials.values()), areas)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="small wrong edits that a test must notice")
    parser.add_argument("--edits", type=int, default=60, help="in all, spread over the folders")
    parser.add_argument("--seed", type=int, default=1, help="which edits")
    parser.add_argument("--folder", action="append", help="only this one; may be repeated")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help="only files whose path begins so; may be repeated",
    )
    parser.add_argument("--jobs", type=int, default=2, help="parallel compilations")
    parser.add_argument("--again", action="store_true", help="only what survived before")
    return parser.parse_args()


def _read(kept: Path, seed: int) -> list[Trial]:
    """The last word on each edit."""
    latest: dict[Edit, Trial] = {}
    for line in kept.read_text(encoding="utf-8").splitlines() if kept.is_file() else []:
        row = json.loads(line)
        if row.pop("seed") == seed:
            row["edit"] = Edit(**row["edit"])
            latest[row["edit"]] = Trial(**row)
    return list(latest.values())


def _to_try(
    campaign: Campaign, area: Area, again: list[Trial] | None, options: argparse.Namespace
) -> Iterable[Edit]:
    if again is None:
        return campaign.pick(area, random.Random(options.seed), options.only)
    return [t.edit for t in again if t.area == area.folder and campaign.fits(t.edit)]


def _make_site(campaign: Campaign) -> None:
    """A package of which `common` and `cli` are the edited tree's, the rest what is installed."""
    found = util.find_spec("byteps")
    if found is None or found.origin is None:
        raise SystemExit("mutants: byteps is not installed here; run ./dev lane mutants")
    site = campaign.scratch / "site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(Path(found.origin).parent, site / "byteps")
    for name in ("common", "cli"):
        shutil.rmtree(site / "byteps" / name)
        (site / "byteps" / name).symlink_to(campaign.tree / "python/byteps" / name)


def _tell(trial: Trial) -> None:
    place = f"{trial.edit.path}:{trial.edit.line}"
    print(f"{trial.outcome:10} {trial.seconds:6.1f} s  {place}  {trial.edit.kind}", flush=True)
    if trial.outcome == "survived":
        print(f"    - {trial.edit.old.strip()}\n    + {trial.edit.new.strip()}", flush=True)


def _report(trials: Sequence[Trial], areas: Sequence[Area]) -> int:
    """A score for each folder. 1 if something survived."""
    print(f"\n{'folder':24} {'caught':>7} {'survived':>9} {'equivalent':>11} {'score':>7}")
    total: Counter[str] = Counter()
    for area in areas:
        counts = Counter(t.outcome for t in trials if t.area == area.folder)
        total += counts
        print(_row(area.folder, counts))
    print(_row("all", total))
    print(f"{total['caught'] + total['equivalent']} passed, {total['survived']} failed")
    return 1 if total["survived"] else 0


def _row(name: str, counts: Counter[str]) -> str:
    judged = counts["caught"] + counts["survived"]
    score = f"{100 * counts['caught'] / judged:.0f} %" if judged else "-"
    numbers = f"{counts['caught']:7} {counts['survived']:9} {counts['equivalent']:11}"
    return f"{name:24} {numbers} {score:>7}"


if __name__ == "__main__":
    sys.exit(main())
