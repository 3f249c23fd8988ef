"""An OpenAI-compatible endpoint by way of the official client and its retries. Reports go to the named host alone.

Reports of credentialed corpora such as MIMIC-CXR may not be sent to a third party under their data use agreement, so
nothing is sent until ``anchors.llm.send_reports_to`` is the host of the endpoint itself; redirects are not followed,
and an endpoint without TLS is never reached through a proxy.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import openai

from pacer.commitments.labelling.reading import Reply, read_body, read_json_text
from pacer.config import Labelling
from pacer.core.errors import ConfigError, PacerError

#: Why a try failed, where the endpoint may have done the work all the same.
MAY_BE_PAID = frozenset({"timeout", "disconnected", "HTTP 504", "HTTP 524"})

_KEY = "anchors.llm.provider: openai needs an API key in OPENAI_API_KEY (any text for a local endpoint)"
_ADDRESS = "anchors.llm.base_url must be an address such as http://localhost:8000/v1"
_NO_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
# By name, because the client brings its own HTTP library: the request never left.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "LocalProtocolError"}


@dataclass(frozen=True)
class Outcome:
    """What became of a request.

    Attributes:
        reply: None when there is none.
        failed: why tries failed: ``timeout``, ``disconnected``, ``unreachable`` or ``HTTP 503`` and the like.
        refuses: what the endpoint will never answer: this request (a content filter may be the reason), or all.
    """

    reply: Reply | None
    failed: Sequence[str]
    refuses: Literal["nothing", "this", "all"] = "nothing"


class Endpoint:
    """Asks the endpoint; threads may share it. Use as a context manager.

    Raises:
        ConfigError: ``send_reports_to`` is not the endpoint's host, the endpoint's address is none, or there is no API
            key that can be sent; nothing was sent.
    """

    def __init__(self, config: Labelling):
        settings: dict[str, Any] = {
            "base_url": config.base_url,
            "max_retries": config.attempts - 1,
            "timeout": config.timeout,
        }
        try:
            try:
                client = openai.OpenAI(**settings)
            except openai.OpenAIError:  # no key; where reports would go is judged first
                client = openai.OpenAI(api_key=" ", **settings)
        except Exception as error:  # the client's HTTP library has the class, and the address may hold a password
            if type(error).__name__ != "InvalidURL":
                raise
            raise ConfigError(f"{_ADDRESS}; the given one cannot be parsed") from None
        url, key = client.base_url, client.api_key
        client.close()
        if url.scheme not in ("http", "https") or not url.host or (url.port or 1) >= 2**16:
            raise ConfigError(
                f"{_ADDRESS}; it has the scheme {url.scheme!r}, the host {url.host!r}, the port {url.port}"
            )
        consent = config.send_reports_to
        if consent is None or consent.strip().lower() != url.host.lower():
            raise ConfigError(
                f"anchors.llm.send_reports_to is {'not set' if consent is None else repr(consent)}, but the endpoint's "
                f"host is {url.host!r}: no report text was sent. Set it to that host if your data may go there "
                "(MIMIC's data use agreement forbids third parties), or set anchors.llm.provider: none"
            )
        if not re.fullmatch(r"[!-~]+", key):
            raise ConfigError(f"{_KEY}; it is not set, or has spaces or characters that no key can have")
        #: The endpoint as errors call it: its host, and its port where it has one of its own.
        self.name = url.netloc.decode()
        self._transport = _Transport(follow_redirects=False, trust_env=url.scheme == "https")
        self._client = client.copy(http_client=self._transport)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def ask(self, request: dict[str, Any]) -> Outcome:
        """The outcome of a chat completion, after the client's tries. An HTTP 200 is a reply, whatever it holds."""
        failed = self._transport.new_request()
        try:
            content = self._client.chat.completions.with_raw_response.create(**request).content
        except openai.APIStatusError as error:
            status = error.status_code
            if status < 400 or status in (401, 402, 403, 404) or error.code in _NO_CREDIT:
                return Outcome(None, failed, "all")
            again = status >= 500 or status in (408, 409, 429)
            return Outcome(None, failed, "nothing" if again else "this")
        except openai.APIError:
            return Outcome(None, failed)
        return Outcome(read_body(content.decode("utf-8", "replace")), failed)

    def refusal(self, record_id: str, reason: str) -> PacerError:
        """The error for an endpoint that will answer nothing."""
        return PacerError(
            f"{self.name} refused the request of {record_id} ({reason}); check the API key, the account, "
            "anchors.llm.model, anchors.llm.base_url and whether it supports the request's settings. Answers are saved"
        )


class _Transport(openai.DefaultHttpxClient):
    """Notes why tries fail, which the client repeats in silence, and gives errors the status that they stand for."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self._thread = threading.local()

    def new_request(self) -> list[str]:
        """Why the tries of this thread's next request fail, as they do."""
        self._thread.failed = failed = []
        return failed

    def send(self, request: Any, **settings: Any) -> Any:
        try:
            response = super().send(request, **settings)
        except Exception as error:
            name = type(error).__name__
            reason = "unreachable" if name in _NEVER_SENT else "timeout" if "Timeout" in name else "disconnected"
            self._thread.failed.append(reason)
            raise
        response.headers["content-type"] = "application/json"  # UTF-8, whatever charset the endpoint names
        body = read_json_text(response.content.decode("utf-8", "replace"))
        error = body.get("error") if isinstance(body, dict) and not body.get("choices") else None
        code = str(error.get("code")) if isinstance(error, dict) else ""
        if error and response.is_success:  # a gateway speaks for the endpoint behind it
            response.status_code = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 504
        if code in _NO_CREDIT:  # with the status of a rate limit
            response.headers["x-should-retry"] = "false"
        if not response.is_success:
            self._thread.failed.append(f"HTTP {response.status_code}")
        return response
