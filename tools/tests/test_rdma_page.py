from __future__ import annotations

import pytest

import rdma_page
from repo import ROOT

PAGE = """\
# Title

| what | Soft-RoCE | card |
|---|---|---|
| contract of verbs, 20 cases | yes | not yet |
| rate | | |

| contract | other |
|---|---|
| contract of verbs | x |
"""

FIGURES = {
    "MB_per_s": 1234.4,
    "worker_cpu_s_per_GB": 0.311,
    "server_cpu_s_per_GB": 0.1,
    "worker_sleeps_per_GB": 100.0,
    "server_sleeps_per_GB": 23.0,
}


def test_one_cell_changes_and_nothing_else() -> None:
    new = rdma_page.with_cell(PAGE, "contract of verbs", "card", "yes, mlx5_0")
    assert new.replace("yes, mlx5_0", "not yet") == PAGE
    assert "| contract of verbs, 20 cases | yes | yes, mlx5_0 |" in new
    assert "| rate | 5 |  |" in rdma_page.with_cell(PAGE, "rate", "Soft-RoCE", "5")


def test_a_row_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="no row 'speed'"):
        rdma_page.with_cell(PAGE, "speed", "card", "yes")


def test_the_page_of_this_repository_has_all_rows_and_columns() -> None:
    page = (ROOT / "docs/rdma.md").read_text()
    for column in ("card", "Soft-RoCE"):
        for row in (*rdma_page.SUITES, rdma_page.BETWEEN_HOSTS, rdma_page.FIGURES):
            page = rdma_page.with_cell(page, row, column, f"told of {row}")
            assert f"told of {row}" in page


def test_figures_of_jobs_that_were_too_short_are_an_error() -> None:
    with pytest.raises(ValueError, match="more rounds"):
        rdma_page.text_of({"tcp": {**FIGURES, "server_cpu_s_per_GB": -1.0}, "rdma": FIGURES})


def test_figures_of_both_transports() -> None:
    text = rdma_page.text_of({"tcp": FIGURES, "rdma": {**FIGURES, "MB_per_s": 5000.0}})
    assert text == (
        "RDMA 5000 MB/s each way, 0.31 + 0.10 s/GB (worker, server), 123 wake-ups/GB; "
        "TCP 1234 MB/s each way, 0.31 + 0.10 s/GB (worker, server), 123 wake-ups/GB"
    )
