"""Asking an OpenAI-compatible endpoint. Report text is sent only to the host that the user has named.

Reports of credentialed corpora such as MIMIC-CXR may not be sent to a third party under their data use agreement, so
nothing is sent until ``anchors.llm.send_reports_to`` is the host of the endpoint itself; redirects are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import openai

from pacer.core.config import Labelling
from pacer.core.errors import ConfigError, PacerError
from pacer.core.progress import Ticker

#: Attempts after the first one, with exponential waits, on rate limits, server errors and lost connections.
MAX_RETRIES = 8
#: Seconds to wait for one answer.
TIMEOUT = 120.0

#: Requests refused as such (HTTP 400 or 422) before the first answer, after which the rest is not tried.
MAX_REFUSED = 20

_FATAL = (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)
_REFUSED = (openai.BadRequestError, openai.UnprocessableEntityError)


def ask(requests: dict[str, dict[str, Any]], config: Labelling) -> Iterator[tuple[str, str]]:
    """Send all requests, ``config.concurrency`` at a time; yields ``(record id, content)`` as answers arrive.

    A single request that the endpoint refuses (a content filter, for example) yields an empty content at the end.

    Raises:
        ConfigError: ``send_reports_to`` is not the endpoint's host, or there is no API key; nothing was sent.
        PacerError: the endpoint refuses all requests, or, after all others were answered, some were not.
    """
    with _client(config) as client:
        pool = ThreadPoolExecutor(config.concurrency)
        futures = {pool.submit(_answer, client, request): record_id for record_id, request in requests.items()}
        failed: dict[str, str] = {}
        refused: dict[str, int] = {}
        answered = 0
        try:
            with Ticker("labelling", len(requests)) as ticker:
                for future in as_completed(futures):
                    record_id = futures[future]
                    try:
                        yield record_id, future.result()
                        answered += 1
                    except _FATAL as error:
                        raise _refusal(record_id, error.status_code) from None
                    except _REFUSED as error:
                        refused[record_id] = error.status_code
                        if not answered and len(refused) >= min(MAX_REFUSED, len(requests)):
                            raise _refusal(record_id, error.status_code) from None
                    except openai.APIStatusError as error:
                        failed[record_id] = f"HTTP {error.status_code}"
                    except openai.OpenAIError as error:
                        failed[record_id] = type(error).__name__
                    ticker.advance()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    if answered:
        yield from ((record_id, "") for record_id in refused)
    if failed:
        record_id, reason = next(iter(failed.items()))
        raise PacerError(
            f"{len(failed)} of {len(requests)} requests got no answer, such as that of {record_id} ({reason}); "
            "the other answers are kept, run the stage again for the rest"
        )


def _refusal(record_id: str, status: int) -> PacerError:
    return PacerError(
        f"the endpoint refused the request of {record_id} (HTTP {status}); check the API key, anchors.llm.model and "
        "anchors.llm.base_url"
    )


def _client(config: Labelling) -> openai.OpenAI:
    try:
        client = openai.OpenAI(
            base_url=config.base_url,
            max_retries=MAX_RETRIES,
            timeout=TIMEOUT,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )
    except openai.OpenAIError:
        raise ConfigError(
            "anchors.llm.provider: openai needs an API key in OPENAI_API_KEY (any text for a local endpoint)"
        ) from None
    host = client.base_url.host
    if config.send_reports_to is None or config.send_reports_to.strip().lower() != host.lower():
        client.close()
        raise ConfigError(
            f"anchors.llm.send_reports_to is {config.send_reports_to!r}, the endpoint's host is {host!r}: report text "
            "is not sent. MIMIC's data use agreement forbids sharing reports with third parties; if your data and "
            "this endpoint allow it, set send_reports_to to that host. provider: none works without any endpoint"
        )
    return client


def _answer(client: openai.OpenAI, request: dict[str, Any]) -> str:
    completion = client.chat.completions.create(**request)
    choices = getattr(completion, "choices", None)
    return (choices[0].message.content or "") if choices else ""
