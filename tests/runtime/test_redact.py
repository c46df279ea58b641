"""Reasons and stacks carry no secrets, and are bounded."""

from __future__ import annotations

import pytest

from runtime.redact import redacted

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "text",
    [
        "GET https://user:hunter2@host/bucket failed",
        "PUT https://host/b?X-Amz-Signature=hunter2&X-Amz-Date=1 returned 403",
        "PUT https://host/b?sv=1&X-Amz-Security-Token=hunter2",
        "config {'sasl.password': 'hunter2', 'ssl.key.password': 'hunter2'}",
        'aws_secret_access_key = "hunter2"',
        "AWS_SECRET_ACCESS_KEY=hunter2",
        "headers: {'Authorization': 'Basic hunter2hunter2=='}",
        "Authorization: Bearer hunter2.hunter2.hunter2",
        "curl failed for bearer hunter2hunter2",
        "sasl.jaas.config=hunter2",
        "api_key: hunter2, more",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2 and the end is cut",
    ],
)
def test_secrets_are_taken_out(text: str) -> None:
    assert "hunter2" not in redacted(text, 1000)
    assert "***" in redacted(text, 1000)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: poisoned frame",
        "j/0: frame 12 is missing at https://host/path?x=1",
        '  File "swapper/runner.py", line 3, in run\n    raise EngineError(reason)',
        "basic motion vectors: 3",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text, 1000) == text


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = "begins" + "x" * 10_000 + "ends"
    short = redacted(text, 300)
    assert len(short) == 300
    assert short.startswith("begins")
    assert short.endswith("ends")
