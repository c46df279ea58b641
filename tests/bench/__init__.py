"""Benchmarks: ratios and rates, printed and never asserted. `make bench` runs all of them."""
