"""How the generated texts ended, counted from the prediction lines: what extraction had to do without."""

from __future__ import annotations

from collections.abc import Sequence

from pacer.metrics.pairing import Prediction


def extraction_counts(predictions: Sequence[Prediction], max_new_tokens: int | None) -> dict[str, int]:
    """Counts over predictions; what their lines do not say is left out.

    Args:
        max_new_tokens: the decoder's limit, ``None`` where it is not known.

    Returns:
        ``fallback``: no report could be extracted and the raw text stands for it; ``unclosed``: the last ``<REPORT>``
        has no ``</REPORT>``; ``empty_anchor``: a commitment that names no finding; ``truncated``: as many tokens as
        the decoder allows (an end that falls exactly there is counted too).
    """
    counts = {"fallback": sum(prediction.fallback for prediction in predictions)}
    unclosed = [prediction.unclosed for prediction in predictions if prediction.unclosed is not None]
    if unclosed and len(unclosed) == len(predictions):
        counts["unclosed"] = sum(unclosed)
    anchors = [prediction.anchor for prediction in predictions if prediction.anchor is not None]
    if anchors:
        counts["empty_anchor"] = sum(not any(anchor.values()) for anchor in anchors)
    tokens = [prediction.tokens for prediction in predictions if prediction.tokens is not None]
    if max_new_tokens is not None and tokens and len(tokens) == len(predictions):
        counts["truncated"] = sum(count >= max_new_tokens for count in tokens)
    return counts
