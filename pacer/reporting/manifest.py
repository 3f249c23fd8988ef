"""What a run was made of: parameters, package versions, hashes of data and weights, as lists for the page."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from pacer.reporting.audits import flat, in_words

#: Packages that draw the page and test its numbers.
_OWN = ("matplotlib", "scipy", "safetensors", "pillow")

Entries = list[tuple[str, str]]


def manifest(
    params: Mapping[str, Any], signature: Mapping[str, Any], predictions: Mapping[str, Any]
) -> dict[str, Entries]:
    """Title -> (name, value) pairs.

    Args:
        params: the whole of ``params.yaml``. signature: of the scores. predictions: the manifest of the decode stage.
    """
    versions = {**predictions.get("trained_with", {}), **signature["versions"]}
    parent = predictions.get("parent") or {}
    hashes = {
        "trained weights, decoded": predictions.get("weights"),
        "parent of these": parent.get("sha256"),
        **{f"frozen {name} model": value for name, value in (predictions.get("frozen") or {}).items()},
        **{f"labeller, {name}": value for name, value in _labeller(signature).items()},
    }
    parts = {
        "Data, SHA-256": [(name, value) for name, value in signature["data"].items() if value],
        "Weights, SHA-256": [(name, value) for name, value in hashes.items() if value],
        "Packages": sorted({**{name: version(name) for name in _OWN}, **versions}.items()),
        "Parameters": [(name, in_words(value)) for name, value in flat(params)],
    }
    return {title: entries for title, entries in parts.items() if entries}


def _labeller(signature: Mapping[str, Any]) -> Mapping[str, str]:
    return (signature["clinical"].get("labeller") or {}).get("files") or {}
