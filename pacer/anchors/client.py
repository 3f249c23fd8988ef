"""The client of an OpenAI-compatible endpoint, and what its errors mean. Report text goes to the named host alone.

Reports of credentialed corpora such as MIMIC-CXR may not be sent to a third party under their data use agreement, so
nothing is sent until ``anchors.llm.send_reports_to`` is the host of the endpoint itself; redirects are not followed,
and an endpoint without TLS is never reached through a proxy.

The client's own retries are off: each attempt has to be counted, noted before it is sent, and weighed against the
budget, and the client repeats a request whose answer broke off as readily as one that was never sent.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import openai

from pacer.core.config import Labelling
from pacer.core.errors import ConfigError, PacerError

#: Seconds: the longest wait between two attempts of our own choosing.
MAX_WAIT = 60.0
#: Seconds: told to wait for longer, the work stops and can be taken up again.
MAX_RETRY_AFTER = 600.0
#: Attempts of one request, in one run, whose answer may have been paid and did not arrive.
MAX_LOST = 3

_NO_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
# By name, because the client brings its own HTTP library: the request never left.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "LocalProtocolError"}


@dataclass(frozen=True)
class Trouble:
    """Why an attempt gave no answer, and what to do about it.

    Attributes:
        reason: ``rate_limited``, ``server_error``, ``gateway_timeout``, ``timeout``, ``disconnected``,
            ``unreachable``, ``undecodable``, ``unreadable``, ``refused`` or ``denied``, or the code of a batch's line.
        status: HTTP status; None when there was no response.
        wait: seconds that the endpoint asks to wait; None when it does not.
        advice: ``again``; ``refuse`` (this request will never be answered); ``stop`` (no request will be).
    """

    reason: str
    status: int | None = None
    wait: float | None = None
    advice: Literal["again", "refuse", "stop"] = "again"

    def __str__(self) -> str:
        return self.reason.replace("_", " ") + (f", HTTP {self.status}" if self.status else "")


def connect(config: Labelling) -> openai.OpenAI:
    """The client of the endpoint; close it after use.

    Raises:
        ConfigError: ``send_reports_to`` is not the endpoint's host, or there is no API key; nothing was sent.
    """
    try:
        client = openai.OpenAI(base_url=config.base_url, max_retries=0, timeout=config.timeout)
    except openai.OpenAIError:
        raise ConfigError(
            "anchors.llm.provider: openai needs an API key in OPENAI_API_KEY (any text for a local endpoint)"
        ) from None
    scheme, host = client.base_url.scheme, client.base_url.host
    client.close()
    if config.send_reports_to is None or config.send_reports_to.strip().lower() != host.lower():
        raise ConfigError(
            f"anchors.llm.send_reports_to is {config.send_reports_to!r}, the endpoint's host is {host!r}: report text "
            "is not sent. MIMIC's data use agreement forbids sharing reports with third parties; if your data and "
            "this endpoint allow it, set send_reports_to to that host. provider: none works without any endpoint"
        )
    transport = openai.DefaultHttpxClient(follow_redirects=False, trust_env=scheme == "https")
    return client.copy(http_client=transport)


def diagnose(error: openai.APIError) -> Trouble:
    """What an error of the client means."""
    if not isinstance(error, openai.APIStatusError):
        cause = type(error.__cause__).__name__
        if cause in _NEVER_SENT:
            return Trouble("unreachable")
        if cause == "DecodingError":
            return Trouble("undecodable")
        return Trouble("timeout" if isinstance(error, openai.APITimeoutError) else "disconnected")
    return status_trouble(error.status_code, error.code, retry_after(error.response.headers))


def status_trouble(status: int, code: str | None = None, wait: float | None = None) -> Trouble:
    """What an HTTP status other than 200 means, with the API's error code and ``Retry-After`` where there is one."""
    if status < 400 or status in (401, 402, 403, 404) or code in _NO_CREDIT:
        return Trouble("denied", status, advice="stop")
    if status == 429:
        return Trouble("rate_limited", status, wait)
    if status in (504, 524):
        return Trouble("gateway_timeout", status, wait)
    if status in (408, 409) or status >= 500:
        return Trouble("server_error", status, wait)
    return Trouble("refused", status, advice="refuse")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by ``Retry-After-Ms``, or ``Retry-After`` in seconds or as an HTTP date; None without either."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                moment = parsedate_to_datetime(value)
            except ValueError:
                continue
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = (moment - datetime.now(UTC)).total_seconds()
        if not math.isnan(seconds):
            return max(seconds, 0.0)
    return None


class Patience:
    """The waits between attempts. Where the endpoint says how long, all requests wait, not only the one it told."""

    def __init__(self, config: Labelling, stop: threading.Event):
        self._backoff, self._stop = config.backoff, stop
        self._not_before = 0.0

    def clear(self) -> None:
        """Wait until requests may be sent."""
        while (left := self._not_before - time.monotonic()) > 0 and not self._stop.wait(left):
            pass

    def after(self, trouble: Trouble, attempt: int) -> None:
        """Wait after an attempt, the first being 0: as long as told, and at least an exponential back-off with jitter.

        Raises:
            PacerError: the endpoint asks for more than :data:`MAX_RETRY_AFTER`.
        """
        told = trouble.wait or 0.0
        if told > MAX_RETRY_AFTER:
            raise PacerError(
                f"the endpoint asks to wait {told:.0f} s ({trouble}); the answers are kept, run the stage again then"
            )
        self._not_before = max(self._not_before, time.monotonic() + told)
        own = min(self._backoff * 2.0 ** min(attempt, 32), MAX_WAIT) * random.uniform(0.5, 1.0)
        self._stop.wait(max(told, own))


def refusal(what: str, trouble: Trouble) -> PacerError:
    """The error for an endpoint that will answer nothing."""
    return PacerError(
        f"the endpoint refused {what} ({trouble}); check the API key, the account, anchors.llm.model, "
        "anchors.llm.base_url and whether it knows the request's settings"
    )
