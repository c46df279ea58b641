"""Taking secrets out of free text: libraries fill reasons and stacks of errors with URLs and headers."""

from __future__ import annotations

import re

HIDDEN = "***"
SECRET = re.compile(
    r"passw|secret|token|credential|api_?key|access_?key|private|\.key|jaas|authorization|sas_", re.I
)
"""Names of settings and fields that hold secrets."""

_SHORTEST = 6
"""Known secrets below this length are not looked for: they would hide half of every text."""
_known: set[str] = set()
_CUT = " […] "
_NAME = r"(?:passw|secret|token|credential|(?:api|access|private)[_-]?key|signature|jaas)[\w.-]{0,80}"
_QUOTED_OR_WORD = r"(?:b?'[^']*'|b?\"[^\"]*\"|[^\s,;&'\")\]}]+)"
_HEADER = r"(authorization['\"]?\s*[:=]\s*['\"]?)[^'\"\n]+"
_PATTERNS = (
    (re.compile(r"-----BEGIN [^-]*PRIVATE KEY-----.*?(?:-----END [^-]*-----|\Z)", re.S), HIDDEN),
    (re.compile(r"(://)[^/\s:@]{0,200}:[^/\s@]{0,200}@"), rf"\1{HIDDEN}@"),
    (re.compile(_HEADER, re.I), rf"\1{HIDDEN}"),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9+/._~-]{8,}=*", re.I), rf"\1 {HIDDEN}"),
    (re.compile(r"([?&]sig=)[^&\s'\"]+"), rf"\1{HIDDEN}"),
    (re.compile(rf"({_NAME}['\"]?\s*[=:]\s*){_QUOTED_OR_WORD}", re.I), rf"\1{HIDDEN}"),
)
"""PEM keys, user:password in URLs, Authorization headers, bearer tokens, and NAME=value or NAME: value where
the name smells of a secret, in query strings too."""


def hide(value: str) -> None:
    """Never show this secret of our own settings again, wherever it turns up."""
    if len(value) >= _SHORTEST:
        _known.add(value)


def cleaned(text: str) -> str:
    """The text without the secrets of our settings, and without what looks like a secret."""
    for secret in _known:
        text = text.replace(secret, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redacted(text: str, most: int) -> str:
    """The text without what looks like a secret, and of at most `most` characters: the middle goes first,
    since the beginning says where and the end says what."""
    text = cleaned(text)
    if len(text) <= most:
        return text
    head = most // 3
    return text[:head] + _CUT + text[len(text) - (most - head - len(_CUT)) :]
