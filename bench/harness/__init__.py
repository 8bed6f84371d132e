"""What the benchmarks share: programs that follow commands, jobs made of them, tables."""
