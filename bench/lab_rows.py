"""What the lab measures: the rows of the table in docs/performance.md."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.jobs import Job, has_openmpi, start_sockets
from harness.lab import Lab, Series, add, measure_in_turn, optimal_seconds
from harness.layers import write_layers
from harness.network import received
from harness.programs import (
    BENCH_DEVICE_STEP,
    BITS_WORKER,
    EMULATED_WORKER,
    MODEL_WORKER,
    BenchError,
    Fleet,
)
from harness.report import Report
from harness.shapes import load_shapes, write_lines

PARTS = (0.5, 0.25)
FIRST_STEPS = 10
SMALL_BYTES = 4096
SMALL_COUNT = 1000
SMALL_REPEATS = 2000
CREDITS = ("65536", "131072", "262144", "524288", "1048576", "4194304")
EMULATED = ("vgg16", "resnet50")
EMULATED_STEPS = 5
DEVICE_STEPS = 3
# Of a GPU's link: PCI express of the third and of the fourth generation.
DEVICE_GB_PER_S = ("12", "25")
PIECES = ("4096", "32768", "1048576")
LAYOUTS = 1000
LAYOUT_VALUES = 1024
# Hosts and ranks on each; the model has as many ranks on all of them.
MODEL_LAYOUTS = ((1, 4), (2, 2), (4, 1))
MODEL_STEPS = 50
MODEL_SERVERS = 3
MODEL_VARIANTS = ("", "BYTEPS_SAME_BITS=1")


def start_peers(lab: Lab, fleet: Fleet, folder: Path) -> list[Job]:
    """Start the peers that are there, with as many ranks on each host as byteps has."""
    peers = [lab.start_gloo(fleet)]
    if lab.arguments.ranks == 1 and has_openmpi():
        peers.append(lab.start_openmpi(fleet, folder))
    return peers


def size_of(lab: Lab) -> str:
    return f"{lab.arguments.megabytes} MB"


def add_pairs(report: Report, lab: Lab, row: int, name: str, ours: Series, other: Series) -> None:
    """Our time beside another job's, repeat by repeat."""
    ratios = [a / b for a, b in zip(ours.seconds, other.seconds, strict=True)]
    add(report, lab, row, Series(name, f"byteps / {other.kind}", ratios), lab.nbytes)


def run_row_1(lab: Lab, report: Report) -> None:
    """one tensor, time / t_opt, for each --variant, too"""
    with Fleet() as fleet:
        variants = ["", *lab.arguments.variant]
        jobs = [lab.start_byteps(fleet, variant, i) for i, variant in enumerate(variants)]
        names = [f"{size_of(lab)} {variant}".strip() for variant in variants]
        for series in measure_in_turn(lab, jobs, names, report.say):
            add(report, lab, 1, series, lab.nbytes)


def run_row_2(lab: Lab, report: Report) -> None:
    """one tensor beside Gloo and, where it is installed, Open MPI"""
    with Fleet() as fleet, tempfile.TemporaryDirectory() as folder:
        jobs = [lab.start_byteps(fleet), *start_peers(lab, fleet, Path(folder))]
        all_series = measure_in_turn(lab, jobs, [size_of(lab)] * len(jobs), report.say)
    for series in all_series:
        add(report, lab, 2, series, lab.nbytes)
    for series in all_series[1:]:
        add_pairs(report, lab, 2, size_of(lab), all_series[0], series)


def run_row_4(lab: Lab, report: Report) -> None:
    """the same with 0 to k servers on hosts of their own; the peers have none"""
    for servers in range(len(lab.servers) + 1):
        with (
            lab.smaller(len(lab.workers), servers) as part,
            Fleet() as fleet,
            tempfile.TemporaryDirectory() as folder,
        ):
            jobs = [part.start_byteps(fleet)]
            if servers == 0:
                jobs += start_peers(part, fleet, Path(folder))
            names = [size_of(lab)] * len(jobs)
            for series in measure_in_turn(part, jobs, names, report.say):
                add(report, part, 4, series, lab.nbytes)


def run_row_5(lab: Lab, report: Report) -> None:
    """one server's link at a half and at a quarter of the rate, which nobody declares"""
    slow = lab.servers[0]
    for part in PARTS:
        lab.set_part(slow, part)
        with Fleet() as fleet:
            variants = ["", *lab.arguments.variant]
            jobs = [lab.start_byteps(fleet, variant, i) for i, variant in enumerate(variants)]
            for job, variant in zip(jobs, variants, strict=True):
                name = f"one server at {part} {variant}".strip()
                series = Series(name, job.kind)
                first = Series(f"{name}, first {FIRST_STEPS} steps", job.kind)
                lab.take_steps(job, first, FIRST_STEPS, report.say)
                lab.take_steps(job, series, lab.arguments.repeats, report.say)
                for one in (first, series):
                    add(report, lab, 5, one, lab.nbytes)
    lab.set_part(slow, 1)


def run_row_6(lab: Lab, report: Report) -> None:
    """one server's link that becomes four times as slow while the job runs, and as fast again"""
    slow = lab.servers[-1]
    with Fleet() as fleet:
        job = lab.start_byteps(fleet)
        lab.take_steps(job, Series("warm-up", job.kind), FIRST_STEPS, report.say)
        for what, part in (("slower", 0.25), ("as fast again", 1.0)):
            lab.set_part(slow, part)
            change = Series(f"a server becomes {what}, steps 1 to 5", job.kind)
            after = Series(f"a server becomes {what}, from step 6", job.kind)
            lab.take_steps(job, change, 5, report.say)
            lab.take_steps(job, after, lab.arguments.repeats, report.say)
            for one in (change, after):
                add(report, lab, 6, one, lab.nbytes)


def run_row_7(lab: Lab, report: Report) -> None:
    """the gradients of real models, all tensors of a step at once"""
    for model in lab.arguments.models.split(","):
        shapes = load_shapes(model)
        with Fleet() as fleet, tempfile.TemporaryDirectory() as folder:
            lines = Path(folder) / model
            write_lines(shapes, lines)
            job = lab.start_byteps(fleet)
            series = Series(model, job.kind)
            for repeat in range(-1, lab.arguments.repeats):
                kept = series if repeat >= 0 else Series("warm-up", job.kind)
                lab.measure(job, model, f"@{lines}", kept, shapes.nbytes)
                report.say(f"{lab.mbit} Mbit/s, {model}, {kept.kind}: {kept.ratios[-1]:.3f} t_opt")
        add(report, lab, 7, series, shapes.nbytes)


def run_row_8(lab: Lab, report: Report) -> None:
    """1000 tensors of 4 KB, time / that of one tensor of as many bytes"""
    many = ",".join([str(SMALL_BYTES)] * SMALL_COUNT)
    one = str(SMALL_BYTES * SMALL_COUNT)
    with Fleet() as fleet:
        job = lab.start_byteps(fleet)
        series = Series(f"{SMALL_COUNT} x {SMALL_BYTES // 1024} KB", "byteps")
        for repeat in range(-2, lab.arguments.repeats):
            whole = job.run(f"run one 1 {one}")
            parts = job.run(f"run many 1 {many}")
            if repeat >= 0:
                series.take(parts.seconds / whole.seconds, parts)
    add(report, lab, 8, series, SMALL_BYTES * SMALL_COUNT)


def run_row_9(lab: Lab, report: Report) -> None:
    """4 KB by one worker and one server, time / a raw ping-pong: median, and the 99th of 100"""
    with lab.smaller(1, 1) as pair, Fleet() as fleet:
        job = pair.start_byteps(fleet)
        median_ = Series("4 KB, p50", "byteps")
        worst = Series("4 KB, p99", "byteps")
        for repeat in range(-1, lab.arguments.repeats):
            raw = pair.sockets.run(f"pingpong {SMALL_BYTES} {SMALL_REPEATS}").answers[0]
            sample = job.run(f"run small {SMALL_REPEATS} {SMALL_BYTES}", SMALL_REPEATS)
            ours = sample.answers[0]
            if repeat >= 0:
                p50, p99 = ours["p50_us"] * 1e-6, ours["p99_us"] * 1e-6
                median_.take(p50 / (raw["p50"] * 1e-6), replace(sample, seconds=p50))
                worst.take(p99 / (raw["p99"] * 1e-6), replace(sample, seconds=p99))
        for series in (median_, worst):
            add(report, pair, 9, series, SMALL_BYTES)


def run_row_10(lab: Lab, report: Report) -> None:
    """CPU seconds of all processes, beside plain sockets that move the same bytes"""
    with Fleet() as fleet:
        job = lab.start_byteps(fleet)
        servers = [(host.place, host.address) for host in lab.servers]
        sockets = start_sockets(fleet, servers, [host.place for host in lab.workers])
        series = Series(f"{size_of(lab)}, CPU seconds", "byteps")
        for repeat in range(-1, lab.arguments.repeats):
            raw = sockets.run(f"exchange {lab.nbytes} 1")
            sample = job.run(f"run tensor 1 {lab.nbytes}")
            if repeat >= 0:
                series.take(sample.cpu_seconds / raw.cpu_seconds, sample)
    add(report, lab, 10, series, lab.nbytes)


def run_row_13(lab: Lab, report: Report) -> None:
    """bfloat16, time / that of as many elements of float32"""
    with Fleet() as fleet:
        job = lab.start_byteps(fleet)
        series = Series(f"{size_of(lab)} as bfloat16", "byteps")
        for repeat in range(-1, lab.arguments.repeats):
            whole = job.run(f"run float32 1 {lab.nbytes}")
            half = job.run(f"run bfloat16 1 bfloat16:{lab.nbytes // 2}")
            if repeat >= 0:
                series.take(half.seconds / whole.seconds, half)
    add(report, lab, 13, series, lab.nbytes // 2)


def run_row_20(lab: Lab, report: Report) -> None:
    """emulated training: a step / the longer one of computation and exchange, which are equal"""
    worker: list[Any] = [sys.executable, EMULATED_WORKER]
    for model in EMULATED:
        shapes = load_shapes(model)
        bound = optimal_seconds(len(lab.workers), len(lab.servers), shapes.nbytes, lab.calibrate())
        with tempfile.TemporaryDirectory() as folder:
            layers = Path(folder) / model
            write_layers(model, bound, layers)
            for kind in ("byteps", "fifo", "ddp"):
                with Fleet() as fleet:
                    job = (
                        lab.start_gloo(fleet, [EMULATED_WORKER, kind])
                        if kind == "ddp"
                        else lab.start_byteps(fleet, program=[*worker, kind])
                    )
                    series = Series(model, kind)
                    sample = job.run(f"run {model} {EMULATED_STEPS} @{layers}", EMULATED_STEPS)
                    series.take(sample.seconds / bound, sample)
                    report.say(f"{model}, {kind}: {series.ratios[-1]:.3f} of {bound:.2f} s")
                add(report, lab, 20, series, shapes.nbytes)


def run_row_21(lab: Lab, report: Report) -> None:
    """the credit that is found, time / that with the best fixed credit"""
    with Fleet() as fleet:
        variants = ["", *(f"BYTEPS_CREDIT_BYTES={credit}" for credit in CREDITS)]
        jobs = [lab.start_byteps(fleet, variant, i) for i, variant in enumerate(variants)]
        names = ["found", *(f"fixed at {credit}" for credit in CREDITS)]
        found, *fixed = measure_in_turn(lab, jobs, names, report.say)
    for series in (found, *fixed):
        add(report, lab, 21, series, lab.nbytes)
    best = min(fixed, key=lambda series: sorted(series.ratios)[len(series.ratios) // 2])
    add_pairs(report, lab, 21, f"found / {best.name}", found, best)


def run_row_31(lab: Lab, report: Report) -> None:
    """part of the sums whose last bits change with the layout, the piece, and the servers; and how
    many different models the ranks train on other hosts"""
    bits: set[str] = set()
    for servers in range(len(lab.servers) + 1):
        for piece in PIECES:
            with lab.smaller(len(lab.workers), servers) as part, Fleet() as fleet:
                job = part.start_byteps(
                    fleet,
                    f"BYTEPS_PARTITION_BYTES={piece}",
                    program=[sys.executable, BITS_WORKER, "byteps"],
                )
                bits |= _count_differing(part, report, job, f"pieces of {piece}")
    if len(bits) > 1:
        raise BenchError(f"row 31: {len(bits)} different sums of the same values")
    with Fleet() as fleet:
        _count_differing(lab, report, lab.start_gloo(fleet, [BITS_WORKER, "gloo"]), "ring")
    for variant in MODEL_VARIANTS:
        hashes = _hashes_of_models(lab, report, variant)
        must = ("float32", "float16") if variant else ("float32",)
        if any(len(hashes[kind]) > 1 for kind in must):
            raise BenchError(f"row 31: the layouts train different models: {hashes}")
    _hashes_of_models(lab, report, None)


def _hashes_of_models(lab: Lab, report: Report, variant: str | None) -> dict[str, set[str]]:
    """Train the model on each layout, with byteps or, for None, with Gloo. Put into the report how
    many different ones there are; return the hashes of those."""
    hashes: dict[str, set[str]] = {"float32": set(), "float16": set()}
    counts = [0] if variant is None else range(min(MODEL_SERVERS, len(lab.servers)) + 1)
    trained = 0
    for hosts, ranks in MODEL_LAYOUTS:
        if hosts > len(lab.workers):
            continue
        for servers in counts:
            with lab.smaller(hosts, servers, ranks) as part, Fleet() as fleet:
                if variant is None:
                    job = part.start_gloo(fleet, [MODEL_WORKER, "gloo"])
                else:
                    program = [sys.executable, MODEL_WORKER, "byteps"]
                    job = part.start_byteps(fleet, variant, program=program)
                sample = job.run(f"run model {MODEL_STEPS}")
            trained += 1
            for answer in sample.answers:
                for kind, found in hashes.items():
                    found.add(answer[kind])
    for kind, found in hashes.items():
        name = f"models of {kind} on {trained} layouts"
        if variant:
            name += f", {variant}"
        series = Series(name, job.kind)
        series.take(float(len(found)), sample)
        add(report, lab, 31, series, 0)
        report.say(f"{job.kind}, {name}: {len(found)} different")
    return hashes


def _count_differing(lab: Lab, report: Report, job: Job, name: str) -> set[str]:
    """Put the part of differing sums into the report; return the sums of the first layout."""
    series = Series(f"{LAYOUTS} layouts, {name}", job.kind)
    sample = job.run(f"run layouts {LAYOUTS} 1")
    for answer in sample.answers:
        series.take(answer["differing"] / (LAYOUTS * LAYOUT_VALUES), sample)
    report.say(f"{job.kind}, {len(lab.servers)} servers, {name}: {max(series.ratios):.4f} differ")
    add(report, lab, 31, series, 4 * LAYOUT_VALUES)
    return {answer["bits"] for answer in sample.answers}


def run_row_32(lab: Lab, report: Report) -> None:
    """with --links 2 or more: a job on one link of each host, and on all; time / t_opt of one"""
    interfaces = lab.workers[0].interfaces
    if len(interfaces) < 2:
        report.say("row 32 needs hosts with several links: --links 2")
        return
    with Fleet() as fleet:
        together = {"BYTEPS_INTERFACES": ",".join(interfaces)}
        jobs = [lab.start_byteps(fleet), lab.start_byteps(fleet, number=1, more=together)]
        names = ["one link", f"{len(interfaces)} links"]
        one, all_links = measure_in_turn(lab, jobs, names, report.say)
        before = [host.received_bytes(interfaces[:1]) for host in lab.workers]
        sum_before = [host.received_bytes() for host in lab.workers]
        jobs[1].run(f"run tensor 1 {lab.nbytes}")
        first = sum(host.received_bytes(interfaces[:1]) for host in lab.workers) - sum(before)
        both = sum(host.received_bytes() for host in lab.workers) - sum(sum_before)
    for series in (one, all_links):
        add(report, lab, 32, series, lab.nbytes)
    add_pairs(report, lab, 32, f"{len(interfaces)} links / one link", all_links, one)
    report.say(f"{interfaces[0]} carries {first / both:.3f} of the bytes of the workers")


def run_row_33(lab: Lab, report: Report) -> None:
    """row 20 with tensors on an emulated GPU, beside the same in host memory; and the bytes that
    reach a worker's host in a step / those of the gradients"""
    if not BENCH_DEVICE_STEP.exists():
        raise BenchError("row 33: run ninja -C build bench_device_step")
    places = [["host"], *(["device", rate] for rate in DEVICE_GB_PER_S)]
    for model in EMULATED:
        shapes = load_shapes(model)
        bound = optimal_seconds(len(lab.workers), len(lab.servers), shapes.nbytes, lab.calibrate())
        with tempfile.TemporaryDirectory() as folder:
            layers = Path(folder) / model
            write_layers(model, bound, layers)
            for place in places:
                series = Series(f"{model}, {lab.arguments.ranks} ranks a host", " ".join(place))
                with Fleet() as fleet:
                    job = lab.start_byteps(fleet, program=[BENCH_DEVICE_STEP, *place])
                    before = sum(received(lab.workers))
                    sample = job.run(f"run {model} {DEVICE_STEPS} @{layers}", DEVICE_STEPS)
                    arrived = sum(received(lab.workers)) - before
                series.take(sample.seconds / bound, sample)
                copies = arrived / len(lab.workers) / shapes.nbytes / (DEVICE_STEPS + 1)
                pageable = sum(answer["pageable_copies"] for answer in sample.answers)
                report.say(
                    f"{series.name}, {series.kind}: {series.ratios[-1]:.3f} of {bound:.2f} s; a "
                    f"host receives the gradients {copies:.3f} times; a rank makes "
                    f"{sample.answers[0]['copies']:.0f} copies in a step; {pageable} copies of all "
                    "ranks were not pinned"
                )
                add(report, lab, 33, series, shapes.nbytes)


ROWS: dict[int, Callable[[Lab, Report], None]] = {
    1: run_row_1,
    2: run_row_2,
    4: run_row_4,
    5: run_row_5,
    6: run_row_6,
    7: run_row_7,
    8: run_row_8,
    9: run_row_9,
    10: run_row_10,
    13: run_row_13,
    20: run_row_20,
    21: run_row_21,
    31: run_row_31,
    32: run_row_32,
    33: run_row_33,
}


def describe_rows() -> str:
    """Return a line for each row."""
    return "\n".join(f"  {number:2}  {row.__doc__}" for number, row in ROWS.items())
