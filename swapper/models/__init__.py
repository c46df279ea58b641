"""The model store: `store` keeps files named in `models.toml`, `build` makes them from pinned packages."""
