"""The endpoint of the labelling model, which is a chat-completions API: requests, and adapting them
to parameters that it refuses.

The data use agreements of credentialed corpora such as MIMIC-CXR forbid sending reports to third
parties. So nothing is sent unless ``anchors.llm.send_reports_to`` equals the host of the endpoint.
Redirects are not followed, and an endpoint without TLS is never reached through a proxy.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import httpx2
import openai

from pacer.config import Labelling
from pacer.core.errors import ConfigError
from pacer.labels.answers import Reply, read_completion
from pacer.labels.questions import Question, response_format

_log = logging.getLogger(__name__)

#: The next weaker ``anchors.llm.response_format``, for an endpoint that refuses one.
_WEAKER = {"json_schema": "json_object", "json_object": "none"}
#: Statuses with which endpoints refuse a parameter that they do not know.
_UNKNOWN_PARAMETER = (400, 404, 415, 422, 501)
#: Refusals that may succeed later, or with another key or address.
_PASSING = (401, 402, 403, 404, 408, 409, 429)
#: Content types that may be shown in messages; any other could quote the request.
_CONTENT_TYPES = frozenset(
    {
        "application/json",
        "application/x-ndjson",
        "text/event-stream",
        "text/html",
        "text/plain",
        "text/xml",
    }
)
#: Parameters that are left out of requests if set to ``null``.
_OPTIONAL = ("temperature", "reasoning_effort")


class Outcome(NamedTuple):
    """The outcome of a request after the client's retries."""

    #: ``refused``: another try would not help; ``failed``: it may.
    status: Literal["answered", "refused", "failed"]
    reply: Reply | None = None
    #: The reason why there is no answer: ``timeout``, ``disconnected``, or for example
    #: ``HTTP 503``.
    reason: str = ""


class Fault(NamedTuple):
    """An error reported by the endpoint."""

    #: The parameter that the endpoint refuses.
    param: str = ""
    code: str = ""
    #: The whole error as JSON text, which may quote the request.
    text: str = ""

    @classmethod
    def of(cls, body: Any) -> Fault:
        """Read the body of an error."""
        error = (body.get("error") or body) if isinstance(body, dict) else body
        fields = error if isinstance(error, dict) else {}
        return cls(
            param=str(fields.get("param") or ""),
            code=str(fields.get("code") or ""),
            text=json.dumps(error),
        )


class Form(NamedTuple):
    """The form in which requests are sent: as configured, until the endpoint refuses it."""

    response_format: str
    token_limit: str = "max_tokens"

    def sent(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a configured request in this form."""
        others = {
            name: value
            for name, value in request.items()
            if name not in ("max_tokens", "response_format")
        }
        return (
            others
            | {self.token_limit: request["max_tokens"]}
            | response_format(self.response_format)
        )

    def after(self, fault: Fault) -> Form | None:
        """Return the form to try after a refusal; None if another form would not help."""
        about = fault.param or fault.text  # a message on another parameter may mention these, too
        renamed = fault.param == "max_tokens" and fault.code.startswith("unsupported")
        if self.token_limit == "max_tokens" and (renamed or "max_completion_tokens" in fault.text):
            return self._replace(token_limit="max_completion_tokens")
        if self.response_format in _WEAKER and "response_format" in about:
            return self._replace(response_format=_WEAKER[self.response_format])
        return None


class Endpoint:
    """An endpoint that threads may share; ``address``: host and port. Parameters that it refused
    once are not sent again."""

    def __init__(self, client: openai.OpenAI, config: Labelling):
        self.client = client
        self.form = Form(config.response_format)
        self.address = client.base_url.netloc.decode()
        self._lock = threading.Lock()

    def ask(self, question: Question) -> Outcome:
        """Request a chat completion, with the client's retries. A response with HTTP 200 that is
        not a completion counts as a failure."""
        while True:
            form = self.form
            sent = form.sent(question.request)
            try:
                response = self.client.chat.completions.with_raw_response.create(**sent)
            except openai.APIStatusError as error:
                fault = Fault.of(error.body)
                if error.status_code in _UNKNOWN_PARAMETER and self._adapted(form, fault):
                    continue
                refused = 400 <= error.status_code < 500 and error.status_code not in _PASSING
                reason = f"HTTP {error.status_code}{_named(fault, sent)}"
                return Outcome("refused" if refused else "failed", reason=reason)
            except openai.APIConnectionError as error:
                late = isinstance(error, openai.APITimeoutError)
                return Outcome("failed", reason="timeout" if late else "disconnected")
            try:
                body = json.loads(response.content.decode("utf-8-sig", "replace"))
            except (ValueError, RecursionError):
                body = None
            reply = read_completion(body)
            if reply is not None:
                return Outcome("answered", reply)
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            kind = kind if kind in _CONTENT_TYPES else "no known content type"
            what = "an error" if isinstance(body, dict) and body.get("error") else "no completion"
            reason = f"HTTP {response.status_code}, {kind}, {what}{_named(Fault.of(body), sent)}"
            return Outcome("failed", reason=reason)

    def _adapted(self, form: Form, fault: Fault) -> bool:
        """Change the form for the rest of the run, unless another thread already has; return
        whether to send the request again."""
        with self._lock:
            if self.form != form:
                return True
            following = form.after(fault)
            if following is None:
                return False
            self.form = following
            changed = next(
                name for name in Form._fields if getattr(form, name) != getattr(following, name)
            )
            kind = (
                f"{changed} {getattr(form, changed)}; this run sends {getattr(following, changed)}"
            )
            _log.warning(f"labelling: the endpoint refuses {kind}")
            return True


def _named(fault: Fault, sent: dict[str, Any]) -> str:
    """Return parameter and code of a fault for a message, but only if they are known names:
    anything else may quote the report or the key."""
    param = re.split(r"[.\[]", fault.param)[0]
    param = param if param in sent else ""
    code = fault.code if re.fullmatch(r"[a-z_]*_[a-z_]*|[0-9]{1,5}", fault.code) else ""
    advice = f": set anchors.llm.{param}: null" if param in _OPTIONAL else ""
    return (
        "".join(f", {name} {value}" for name, value in (("param", param), ("code", code)) if value)
        + advice
    )


class _TimedClient(openai.DefaultHttpxClient):
    """An HTTP client whose timeout, in seconds, is for the whole request; that of httpx2 starts
    again with every byte."""

    def __init__(self, deadline: float, **options: Any):
        super().__init__(**options)
        self.deadline = deadline

    def send(self, *request: Any, **options: Any) -> Any:
        """Send a request and read the response. Raises a ReadTimeout if it takes longer than the
        deadline."""
        future = Future[Any]()

        def work() -> None:
            try:
                future.set_result(super(_TimedClient, self).send(*request, **options))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        try:
            return future.result(self.deadline)
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no complete answer in {self.deadline} s") from None


@contextmanager
def connect(config: Labelling) -> Generator[Endpoint]:
    """Open the official client. Raises a ConfigError if ``send_reports_to`` is not the endpoint's
    host, the endpoint's address is invalid, or there is no API key that can be sent; nothing was
    sent."""
    for library in ("openai", "httpx2", "httpcore2"):  # their logs may contain requests
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:  # the address in use, whether from the parameters or the environment
        with openai.OpenAI(api_key="none", base_url=config.base_url) as client:
            url = client.base_url
        host = url.host.lower() if url.scheme in ("http", "https") else ""
    except (
        Exception
    ):  # from the client's HTTP library; not shown, as the address may contain a password
        host = ""
    if host and (url.query or url.fragment):
        raise ConfigError(
            "anchors.llm.base_url has a query or fragment (? or #), which the client does not "
            "send; remove it. For Azure, set base_url to "
            "https://RESOURCE.openai.azure.com/openai/v1, and model to the deployment name"
        )
    consent = config.send_reports_to
    if not host or consent is None or consent.strip().lower() != host:
        raise ConfigError(
            f"anchors.llm.send_reports_to is {'not set' if consent is None else repr(consent)}, "
            f"but the host of anchors.llm.base_url is {host!r}: no report text is sent. Set it to "
            "that host if your data may go there (MIMIC's data use agreement forbids sharing with "
            "third parties), or set anchors.llm.provider: none"
        )
    http = _TimedClient(config.timeout, follow_redirects=False, trust_env=url.scheme == "https")
    try:
        client = openai.OpenAI(
            base_url=url, max_retries=config.attempts - 1, timeout=config.timeout, http_client=http
        )
    except openai.OpenAIError:
        client = None
    if client is None or not re.fullmatch(r"[!-~]+", client.api_key):
        raise ConfigError(
            "anchors.llm.provider = 'openai' needs an API key in OPENAI_API_KEY (ASCII, without "
            "spaces); for a local endpoint, any text will do"
        )
    with client:
        yield Endpoint(client, config)
