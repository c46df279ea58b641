"""Languages of tracks, as each container names them."""

from __future__ import annotations

_BIBLIOGRAPHIC = {
    "deu": "ger", "nld": "dut", "ell": "gre", "isl": "ice", "zho": "chi", "ces": "cze", "slk": "slo",
    "ron": "rum", "sqi": "alb", "hye": "arm", "mya": "bur", "kat": "geo", "mkd": "mac", "msa": "may",
    "fas": "per", "cym": "wel", "bod": "tib", "eus": "baq",
}  # fmt: skip
"""ISO 639-2: terminological to bibliographic codes, where they differ."""


def language_in(container: str, code: str) -> str:
    """The code by which FFmpeg's muxer knows a language: QuickTime's list has the bibliographic ones."""
    return _BIBLIOGRAPHIC.get(code, code) if container == "mov" else code
