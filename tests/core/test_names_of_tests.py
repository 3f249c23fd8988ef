"""What the names of tests must hold to when several workers run them: each worker makes the names for itself."""

from __future__ import annotations

import gzip

import pytest


@pytest.mark.parametrize(("packed", "number"), [(gzip.compress(b"a"), 1), (gzip.compress(b"b"), 2)])
def test_bytes_are_not_in_them(packed: bytes, number: int, request: pytest.FixtureRequest) -> None:
    assert request.node.name == f"test_bytes_are_not_in_them[bytes-{number}]"
