"""The endpoint of the labelling model, which is a chat-completions API. Retries, timeouts and
``Retry-After`` are those of the official client.

The data use agreements of credentialed corpora such as MIMIC-CXR forbid sending reports to third
parties. So nothing is sent unless ``anchors.llm.send_reports_to`` equals the host of the endpoint.
Redirects are not followed, and an endpoint without TLS is never reached through a proxy.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import openai

from pacer.config import Labelling
from pacer.core.errors import ConfigError, PacerError
from pacer.labels.answers import Reply, read_completion
from pacer.labels.questions import Question, response_format

_log = logging.getLogger(__name__)

#: Attempts at a request in one run. Without ``Retry-After``, the waits between them (0.5 to 8 s)
#: add up to half a minute, in which a server restarts; a rerun repeats what still fails.
ATTEMPTS = 8
#: Refusals that may succeed later, or with another key or address.
_PASSING = (401, 402, 403, 404, 408, 409, 429)
#: Advice by what an error says; the first pattern that is found counts.
_ADVICE = {
    "(?i)certificate": "name a file with the certificate of its authority in SSL_CERT_FILE",
    "(?i)no connection.*(wrong.version|record layer|disconnected|reset)|plain http": "check "
    "whether anchors.llm.base_url has to begin with http:// or https://",
    "no connection": "start the server, or correct host and port in anchors.llm.base_url",
    "disconnected": "look into the log of the server",
    "timeout": "raise anchors.llm.timeout, or lower anchors.llm.concurrency",
    "(?i)HTTP 40[123]|api key": "check the API key in OPENAI_API_KEY and the account",
    "HTTP 429": "rerun the stage later, or lower anchors.llm.concurrency",
    "temperature": "set anchors.llm.temperature: null",
    "reasoning_effort": "set anchors.llm.reasoning_effort: null",
    "(?i)context|too long": "give the server a longer context, which holds the prompt (some 1,700 "
    "tokens), the report and anchors.llm.max_tokens",
    "HTTP [23]|HTTP 404|model": "check anchors.llm.model and anchors.llm.base_url, which often "
    "ends in /v1",
    "": "see docs/commitments.md, Label with a language model",
}
#: Words that reports share with the messages of endpoints.
_COMMON = re.compile(
    "a|an|and|are|as|at|be|been|but|by|can|cannot|for|from|has|have|if|in|is|it|its|no|not|of|on|or"
    "|than|that|the|there|this|to|too|was|were|which|will|with|without"
)


class Trouble(NamedTuple):
    """Why a request has no answer: the ``kind`` is counted in the audit, and the explanation adds
    what the endpoint says, without report text, and advice. ``final``: another try would not
    help."""

    kind: str
    explained: str
    final: bool = False


class Endpoint:
    """An endpoint that threads may share; ``address``: host and port. Parameters that it refused
    once are not sent again."""

    def __init__(self, client: openai.OpenAI, config: Labelling):
        self.client = client
        self.address = client.base_url.netloc.decode()
        #: Parameters in place of those that the endpoint refused, and the weaker formats left.
        self.form: dict[str, Any] = {}
        formats = ("json_schema", "json_object", "none")
        self.weaker = [*formats[formats.index(config.response_format) + 1 :]]

    def check(self) -> None:
        """Raise a PacerError if the endpoint cannot be reached. No report is sent."""
        try:
            self.client.with_options(max_retries=0, timeout=5).models.with_raw_response.list()
        except openai.APIError as error:  # not every endpoint lists its models
            if type(error) is openai.APIConnectionError:
                trouble = self._trouble("no connection", error.__cause__)
                raise PacerError(
                    f"{self.address}: {trouble.explained}. No report was sent"
                ) from None

    def ask(self, question: Question) -> Reply | Trouble:
        """Request a chat completion. A response with HTTP 200 that is none counts as a trouble."""
        while True:
            form = self.form
            try:
                response = self.client.chat.completions.with_raw_response.create(
                    **question.request | form
                )
            except openai.APIStatusError as error:
                if self._adapted(form, json.dumps(error.body), question.request["max_tokens"]):
                    continue
                status = error.status_code
                final = 400 <= status < 500 and status not in _PASSING
                return self._trouble(f"HTTP {status}", error.body, question, final)
            except openai.APITimeoutError:
                return self._trouble("timeout")
            except openai.APIConnectionError as error:
                return self._trouble("disconnected", error.__cause__)
            body = None
            with suppress(ValueError, RecursionError):
                body = json.loads(response.content)
            kind = f"HTTP {response.status_code} without a completion"
            told = body if isinstance(body, dict) else None  # others may hold an answer
            return read_completion(body) or self._trouble(kind, told, question)

    def _adapted(self, form: dict[str, Any], error: str, limit: int) -> bool:
        """Change the form for the rest of the run if the error names a parameter, unless another
        thread has already; return whether to send the request again."""
        if self.form is form:
            if "max_completion_tokens" in error and "max_tokens" not in form:
                told = "max_completion_tokens"
                self.form = form | {"max_tokens": openai.omit, told: limit}
            elif "response_format" in error and self.weaker:
                told = f"response_format {self.weaker[0]}"
                format = response_format(self.weaker.pop(0))
                self.form = form | ({"response_format": openai.omit} | format)
            else:
                return False
            _log.warning(f"labelling: the endpoint refuses a parameter; this run sends {told}")
        return True

    def _trouble(
        self, kind: str, body: Any = None, question: Question | None = None, final: bool = False
    ) -> Trouble:
        said = " ".join(_message(body).split())
        if len(self.client.api_key) > 8:  # shorter ones are no secrets, but words
            said = said.replace(self.client.api_key, "…")
        advice = next(_ADVICE[name] for name in _ADVICE if re.search(name, f"{kind} {said}"))
        if question:
            said = _without(said, question.request["messages"][-1]["content"].lower())
        return Trouble(kind, f"{kind}{said and ': '}{said.rstrip('.'):.200}; {advice}", final)


def _message(body: Any) -> str:
    """Return the text of an error: its message, or its code if there is none."""
    if isinstance(body, list):
        body = body[0] if body else None
    if isinstance(body, dict):
        names = ("error", "message", "detail", "msg", "code")
        return next(filter(None, (_message(body.get(name)) for name in names)), "")
    return re.sub(r"<[^>]*>|\\+[nrt]|\S*\*\S*", " ", str(body or ""))  # * masks a key


def _without(message: str, sent: str) -> str:
    """Return a message without the part from the first to the last word in it that was sent."""
    words = {*re.findall(r"\w+", sent)}
    quoted = [
        match
        for match in re.finditer(r"\w+", message)
        if not _COMMON.fullmatch(word := match[0].lower())
        and (word in words or (len(word) > 3 and word in sent))
    ]
    return f"{message[: quoted[0].start()]}…{message[quoted[-1].end() :]}" if quoted else message


@contextmanager
def connect(config: Labelling) -> Generator[Endpoint]:
    """Open the official client. Raises a ConfigError if ``send_reports_to`` is not the endpoint's
    host, the endpoint's address is invalid, or there is no API key that can be sent; nothing was
    sent."""
    for library in ("openai", "httpx2", "httpcore2"):  # their logs may contain requests
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        client = openai.OpenAI(
            api_key="none",
            base_url=config.base_url,
            max_retries=ATTEMPTS - 1,
            timeout=config.timeout,
        )
        url = client.base_url  # whether from the parameters or the environment
        host = url.host.lower() if url.scheme in ("http", "https") else ""
    except Exception:  # of the HTTP library; not shown, as the address may contain a password
        host = ""
    consent = config.send_reports_to
    if not host or consent is None or consent.strip().lower() != host:
        raise ConfigError(
            f"anchors.llm.send_reports_to is {'not set' if consent is None else repr(consent)}, "
            f"but the host of anchors.llm.base_url is {host!r}: no report text is sent. Set it to "
            "that host if your data may go there (MIMIC's data use agreement forbids sharing with "
            "third parties), or set anchors.llm.provider: none"
        )
    key = ""
    with suppress(openai.OpenAIError):  # no key in the environment
        key = openai.OpenAI(base_url=url).api_key
    if not re.fullmatch(r"[!-~]+", key):
        raise ConfigError(
            "anchors.llm.provider = 'openai' needs an API key in OPENAI_API_KEY (ASCII, without "
            "spaces); for a local endpoint, any text will do"
        )
    http = openai.DefaultHttpxClient(follow_redirects=False, trust_env=url.scheme == "https")
    with client.with_options(api_key=key, http_client=http) as client:
        yield Endpoint(client, config)
