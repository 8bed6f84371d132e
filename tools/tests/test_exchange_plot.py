"""The plot of the README shows what docs/performance.md says."""

import exchange_plot


def test_the_plot_is_that_of_the_table() -> None:
    found = exchange_plot.ratios(exchange_plot.PAGE.read_text())
    assert list(found) == ["200 Mbit/s", "500 Mbit/s", "1 Gbit/s"]
    assert all(set(bars) == set(exchange_plot.COLOURS) for bars in found.values())
    text = exchange_plot.PLOT.read_text()
    assert text == exchange_plot.plot(found), "run: python3 tools/exchange_plot.py"
