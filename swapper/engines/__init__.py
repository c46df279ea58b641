"""Engines turn frames into patches. `base` is the interface; `registry` opens one by name."""
