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
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import openai

from pacer.core.errors import ConfigError, PacerError
from pacer.params import Labelling

#: Seconds: the longest wait between two attempts of our own choosing.
MAX_WAIT = 60.0
#: Seconds: told to wait for longer, the work stops and can be taken up again.
MAX_RETRY_AFTER = 600.0
#: Attempts of one request, in one run, whose answer may have been paid and did not arrive.
MAX_LOST = 3
#: Requests in a row that were refused, gave no answer, or one that cannot be read, after which the rest is not tried.
MAX_IN_A_ROW = 20
#: Bytes of an answer; the longest that ``max_tokens`` allows is far shorter.
MAX_ANSWER = 4_000_000

_KEY = "needs an API key in OPENAI_API_KEY (any text for a local endpoint)"
_NO_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
# By name, because the client brings its own HTTP library: the request never left.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "LocalProtocolError"}


@dataclass(frozen=True)
class Trouble:
    """Why an attempt gave no answer, and what to do about it.

    Attributes:
        reason: ``rate_limited``, ``server_error``, ``gateway_timeout``, ``timeout``, ``disconnected``,
            ``too_large``, ``error_body``, ``unreachable``, ``undecodable``, ``unreadable``, ``refused`` or ``denied``,
            or the code of a batch's line.
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
        ConfigError: ``send_reports_to`` is not the endpoint's host, the endpoint's address is none, or there is no API
            key that can be sent; nothing was sent.
    """
    address = "anchors.llm.base_url must be an address such as http://localhost:8000/v1"
    try:
        client = openai.OpenAI(base_url=config.base_url, max_retries=0, timeout=config.timeout)
    except openai.OpenAIError:
        raise ConfigError(f"anchors.llm.provider: openai {_KEY}") from None
    except Exception as error:  # the client's HTTP library has the class, and the address may hold a password
        if type(error).__name__ != "InvalidURL":
            raise
        raise ConfigError(f"{address}; it cannot be read") from None
    scheme, host, port = client.base_url.scheme, client.base_url.host, client.base_url.port
    client.close()
    if scheme not in ("http", "https") or not host or (port or 1) >= 2**16:
        raise ConfigError(f"{address}; it has the scheme {scheme!r}, the host {host!r} and the port {port}")
    if not re.fullmatch(r"[!-~]+", client.api_key):
        raise ConfigError(
            f"anchors.llm.provider: openai {_KEY}; this one is empty, or has blanks or other characters that no key has"
        )
    consent = config.send_reports_to
    if consent is None or consent.strip().lower() != host.lower():
        raise ConfigError(
            f"anchors.llm.send_reports_to is {'not set' if consent is None else repr(consent)}, the endpoint's host is "
            f"{host!r}: report text is not sent. MIMIC's data use agreement forbids sharing reports with third "
            "parties; if your data and this endpoint allow it, set send_reports_to to that host. provider: none works "
            "without any endpoint"
        )
    transport = _Bounded(config.timeout, follow_redirects=False, trust_env=scheme == "https")
    return client.copy(http_client=transport)


def name_of(client: openai.OpenAI) -> str:
    """The endpoint as errors call it: its host, and its port where it has one of its own."""
    return client.base_url.netloc.decode()


class TooLarge(openai.APIConnectionError):
    """A body of more than :data:`MAX_ANSWER` bytes."""


class _Bounded(openai.DefaultHttpxClient):
    """Ends an answer that takes too long or gets too large: gateways send blanks to keep a connection open, and each
    of them would start the HTTP library's own time-out anew. Files of batches are let through.

    Args:
        seconds: from the request to the end of its answer. Waits for a single packet have the client's time-out.
    """

    def __init__(self, seconds: float, **settings: Any):
        super().__init__(**settings)
        self._seconds = seconds

    def send(self, request: Any, *, stream: bool = False, **settings: Any) -> Any:
        chat = request.url.path.endswith("/chat/completions")
        deadline = time.monotonic() + self._seconds
        response = super().send(request, stream=stream or chat, **settings)
        headers = response.headers  # JSON is UTF-8, whatever the endpoint says
        headers["content-type"] = headers.get("content-type", "").partition(";")[0]
        if not chat:
            return response
        content = bytearray()
        try:
            for part in response.iter_bytes():
                content += part
                if len(content) > MAX_ANSWER:
                    raise TooLarge(request=request)
                if time.monotonic() > deadline:
                    raise openai.APITimeoutError(request=request)
        finally:
            response.close()
        for name in ("content-encoding", "content-length"):
            headers.pop(name, None)
        return type(response)(response.status_code, headers=headers, content=bytes(content), request=request)


def diagnose(error: openai.APIError) -> Trouble:
    """What an error of the client means."""
    if isinstance(error, TooLarge):
        return Trouble("too_large")
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


def trouble_in(body: Any) -> Trouble | None:
    """The trouble that a gateway wraps in an HTTP 200: an ``error``, and no ``choices``. None for an answer."""
    if not isinstance(body, dict) or not body.get("error") or body.get("choices"):
        return None
    code = body["error"].get("code") if isinstance(body["error"], dict) else None
    status = as_status(code)
    if status is not None and status >= 400:
        return status_trouble(status)
    return status_trouble(200, code) if code in tuple(_NO_CREDIT) else Trouble("error_body")


def as_status(value: Any) -> int | None:
    """An HTTP status, which some endpoints write as a text."""
    return int(value) if isinstance(value, int | str) and re.fullmatch("[1-5][0-9][0-9]", str(value)) else None


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
                moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                seconds = (moment - datetime.now(UTC)).total_seconds()
            except (ValueError, OverflowError):
                continue
        if not math.isnan(seconds):
            return max(seconds, 0.0)
    return None


class Patience:
    """The waits between attempts. Where the endpoint says how long, all requests wait, not only the one it told."""

    def __init__(self, endpoint: str, config: Labelling, stop: threading.Event):
        self._endpoint, self._backoff, self._stop = endpoint, config.backoff, stop
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
                f"{self._endpoint} asks to wait {told:.0f} s ({trouble}); the answers are kept, run the stage again "
                "then"
            )
        self._not_before = max(self._not_before, time.monotonic() + told)
        own = min(self._backoff * 2.0 ** min(attempt, 32), MAX_WAIT) * random.uniform(0.5, 1.0)
        self._stop.wait(max(told, own))


def refusal(endpoint: str, what: str, trouble: Trouble) -> PacerError:
    """The error for an endpoint that will answer nothing."""
    return PacerError(
        f"{endpoint} refused {what} ({trouble}); check the API key, the account, anchors.llm.model, "
        "anchors.llm.base_url and whether it knows the request's settings"
    )
