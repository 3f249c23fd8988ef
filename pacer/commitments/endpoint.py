"""An OpenAI-compatible endpoint through the official client and its retries. Reports go to the named host alone.

Reports of credentialed corpora such as MIMIC-CXR may not be sent to a third party under their data use agreement, so
nothing is sent until ``anchors.llm.send_reports_to`` is the host of the endpoint itself; redirects are not followed,
and an endpoint without TLS is never reached through a proxy.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Literal, NamedTuple

import openai

from pacer.commitments.answers import Reply, read_completion
from pacer.commitments.request import Question
from pacer.config import Labelling
from pacer.core.errors import ConfigError

_KEY = "anchors.llm.provider: openai needs an API key in OPENAI_API_KEY (any text for a local endpoint)"
_ADDRESS = "anchors.llm.base_url must be an address such as http://localhost:8000/v1"
_NO_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}


class Outcome(NamedTuple):
    """What became of a request after all its tries.

    Attributes:
        status: ``answered``; ``refused``, which asking again would not change; ``failed``, which it may change.
        reason: of what was not answered: ``timeout``, ``disconnected``, or ``HTTP 503`` and the like.
        for_all: the endpoint would refuse every other request as well.
    """

    status: Literal["answered", "refused", "failed"]
    reply: Reply | None = None
    reason: str = ""
    for_all: bool = False


class Endpoint:
    """Asks the endpoint; threads may share it. Use as a context manager.

    Raises:
        ConfigError: ``send_reports_to`` is not the endpoint's host, the endpoint's address is none, or there is no API
            key that can be sent; nothing was sent.
    """

    def __init__(self, config: Labelling):
        for library in ("openai", "httpx2", "httpcore2"):  # their logs may hold requests
            logging.getLogger(library).setLevel(logging.CRITICAL)
        try:  # the address in use, whether from the parameters or the environment
            with openai.OpenAI(api_key="none", base_url=config.base_url) as client:
                url = client.base_url
        except Exception:  # of the client's HTTP library; the address may hold a password
            raise ConfigError(f"{_ADDRESS}; the given one cannot be parsed") from None
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
        http = openai.DefaultHttpxClient(follow_redirects=False, trust_env=url.scheme == "https")
        try:
            self._client = openai.OpenAI(
                base_url=url, max_retries=config.attempts - 1, timeout=config.timeout, http_client=http
            )
        except openai.OpenAIError:
            raise ConfigError(f"{_KEY}; it is not set") from None
        if not re.fullmatch(r"[!-~]+", self._client.api_key):
            raise ConfigError(f"{_KEY}; it is empty, or has spaces or characters that no key can have")
        #: The endpoint as errors call it: its host, and its port where it has one of its own.
        self.name = url.netloc.decode()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def ask(self, question: Question) -> Outcome:
        """The outcome of a chat completion, after the client's tries. An HTTP 200 is a reply, whatever it holds."""
        try:
            content = self._client.chat.completions.with_raw_response.create(**question.request).content
        except openai.APIStatusError as error:
            reason, status = f"HTTP {error.status_code}", error.status_code
            if status < 400 or status in (401, 402, 403, 404) or error.code in _NO_CREDIT:
                return Outcome("refused", reason=reason, for_all=True)
            again = status >= 500 or status in (408, 409, 429)
            return Outcome("failed" if again else "refused", reason=reason)
        except openai.APIConnectionError as error:
            return Outcome("failed", reason="timeout" if isinstance(error, openai.APITimeoutError) else "disconnected")
        text = content.decode("utf-8", "replace")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        reply = read_completion(body)
        if reply is None and isinstance(body, dict) and body.get("error"):  # a gateway speaks for the endpoint
            return Outcome("failed", reason="HTTP 200 with an error")
        return Outcome("answered", reply or Reply(raw=text))
