"""The Batch API as a way to ask: a file of requests goes up, and a file of answers comes back within a day.

A batch is noted on disk, under a name of its own, before anything is sent; the same name is in the uploaded file's
name and in the batch's metadata. So a process that is killed at any moment finds its batch again, and never creates a
second one for the same requests. Files with report text are deleted from the endpoint once their answers are on disk.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import openai

from pacer.core.errors import PacerError
from pacer.core.io import atomic_path, read_json, write_json
from pacer.core.progress import Ticker
from pacer.labelling.answers.reading import REFUSAL, Reply, read_body, read_completion
from pacer.labelling.client.budget import Budget
from pacer.labelling.client.cache import MAY_BE_PAID, AnswerCache, answer_line
from pacer.labelling.client.client import (
    MAX_IN_A_ROW,
    MAX_WAIT,
    Patience,
    Trouble,
    as_status,
    diagnose,
    name_of,
    refusal,
    status_trouble,
    trouble_in,
)
from pacer.labelling.client.request import Question, RequestForm
from pacer.params import Labelling

#: Bytes of one uploaded file at most; the API takes 200 MB.
MAX_BYTES = 190_000_000
#: The key of a batch's name in its metadata.
NAME = "pacer_batch"
_ENDED = {"completed", "failed", "expired", "cancelled"}
_UNDER_WAY = {"validating", "in_progress", "finalizing", "cancelling"}

T = TypeVar("T")


@dataclass
class _Batch:
    """One batch, as noted in ``<name>.json``.

    Attributes:
        requests: request hash -> (record id, expected dollars).
        endpoint: the address that it was sent to.
        batch_id: None until the endpoint's answer to its creation arrived.
        files: what lies at the endpoint, to be deleted; set once all answers are on disk.
    """

    name: str
    prompt_hash: str
    endpoint: str
    requests: dict[str, tuple[str, float]]
    batch_id: str | None = None
    files: list[str] | None = None


class BatchAsker:
    """Asks in batches, one after the other.

    Args:
        folder: notes and files of batches that are under way.
        answered: answers to requests of this form that there are already.
    """

    def __init__(
        self, client: openai.OpenAI, config: Labelling, cache: AnswerCache, budget: Budget, folder: Path, answered: int
    ):
        self._client, self._config, self._cache, self._budget, self._folder = client, config, cache, budget, folder
        self._answered = answered
        url = client.base_url  # which may hold a password
        self._endpoint = f"{url.scheme}://{url.host}:{url.port or ''}{url.path}"
        self._name_there = name_of(client)
        self._patience = Patience(self._name_there, config, threading.Event())

    def ask(self, questions: Sequence[Question], form: RequestForm) -> dict[str, Trouble]:
        """Ask all questions; returns those that got no answer, by record id.

        Raises:
            PacerError: the endpoint refuses a batch or cannot be reached, or the budget is spent. What was answered is
                in the cache, and a batch under way is found again.
        """
        self._folder.mkdir(exist_ok=True)
        failed: dict[str, Trouble] = {}
        start = 0
        while start < len(questions):
            batch = _Batch(uuid.uuid4().hex, form.prompt_hash, self._endpoint, {})
            lines = self._write(self._requests_of(batch), questions[start:], form)
            part = questions[start : start + lines]
            start += lines
            batch.requests = {q.request_hash: (q.record_id, self._budget.expected(q, batch=True)) for q in part}
            self._budget.take(sum(dollars for _, dollars in batch.requests.values()), len(part))
            self._note(batch)
            status = self._collect(batch, failed, look_first=False)
            if status.startswith("failed"):
                raise PacerError(
                    f"{self._name_there} did not take a batch of {len(part)} requests ({status}); if its queue is too "
                    "short for them, lower anchors.llm.batch_requests. Run the stage again for the rest"
                )
        return failed

    def resume(self, wanted: set[str]) -> None:
        """Collect the batches of an earlier process; what they leave unanswered can be asked again.

        Batches that hold none of the wanted requests are collected if they have ended, and else left under way.
        """
        for path in sorted(self._folder.glob("*.json")):
            batch = _Batch(**read_json(path))
            if batch.endpoint != self._endpoint:
                raise PacerError(
                    f"{path} notes a batch at {batch.endpoint}, and anchors.llm.base_url is another endpoint now: set "
                    "it back until the batch is over, or delete the note to give its answers up"
                )
            if batch.files is not None:
                self._clean_up(batch)
                continue
            unwanted = wanted.isdisjoint(batch.requests)
            if unwanted:
                if self._call(lambda batch=batch: self._find(batch), self._name(batch)) is None:
                    self._forget(batch)
                    continue
                if not _ended(self._look(batch)):
                    continue
            spent = self._budget.dollars, self._budget.requests
            open_requests = self._open(batch)
            self._budget.change(sum(dollars for _, dollars in open_requests.values()), len(open_requests))
            self._collect(batch, {}, look_first=True)
            if unwanted:  # paid on another labelling's account
                self._budget.change(spent[0] - self._budget.dollars, spent[1] - self._budget.requests)
        for path in self._folder.glob("*.jsonl"):
            if not path.with_suffix(".json").exists():
                path.unlink()

    def _collect(self, batch: _Batch, failed: dict[str, Trouble], look_first: bool) -> str:
        """Create the batch where it does not exist, wait for its end, and take its answers; returns its status."""
        if batch.batch_id is None:
            batch.batch_id = self._create(batch, look_first)
            self._note(batch)
        self._requests_of(batch).unlink(missing_ok=True)
        ended = self._wait(batch)
        self._take(batch, ended, failed)
        names = ("input_file_id", "output_file_id", "error_file_id")
        batch.files = [ended[name] for name in names if ended.get(name)]
        self._note(batch)
        self._clean_up(batch)
        errors = _dict(ended.get("errors")).get("data")
        codes = {_word(_dict(error).get("code")) for error in errors} if isinstance(errors, list) else set()
        return ", ".join([ended["status"], *sorted(codes)])

    def _create(self, batch: _Batch, look_first: bool) -> str:
        """The id of the batch at the endpoint; an attempt that broke off may have created it, so it is looked for."""
        file_id: str | None = None

        def create() -> str:
            nonlocal look_first, file_id
            if look_first and (found := self._find(batch)):
                return found
            file_id = file_id or (self._find_file(batch) if look_first else None)
            look_first = True
            if file_id is None:
                with open(self._requests_of(batch), "rb") as file:
                    upload = (f"{batch.name}.jsonl", file)
                    raw = self._client.files.with_raw_response.create(file=upload, purpose="batch")
                file_id = _object(raw.content)["id"]
            raw = self._client.batches.with_raw_response.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={NAME: batch.name},
            )
            return _object(raw.content)["id"]

        return self._call(create, self._name(batch))

    def _wait(self, batch: _Batch) -> dict[str, Any]:
        """The batch as the endpoint describes it at its end.

        Raises:
            PacerError: its status is none of the API's, and there are no answers either.
        """
        pause = self._config.backoff
        with Ticker("labelling in a batch", len(batch.requests)) as ticker:
            while True:
                found = self._look(batch)
                ticker.advance(_counted(found, "completed") - ticker.done, found["status"])
                if _ended(found):
                    return found
                if found["status"] not in _UNDER_WAY:
                    raise PacerError(
                        f"{self._name_there} says that {self._name(batch)} has the status {found['status']}, which the "
                        "Batch API does not know, and names no answers: run the stage again later, or delete the note "
                        "to give the batch up"
                    )
                time.sleep(pause)
                pause = min(pause * 1.5, MAX_WAIT)

    def _take(self, batch: _Batch, ended: dict[str, Any], failed: dict[str, Trouble]) -> None:
        """Put the answers of an ended batch into the cache, and settle what it cost."""
        left = self._open(batch)
        troubles: dict[str, Trouble] = {}
        before = len(left)
        for name, count in (("output_file_id", "completed"), ("error_file_id", "failed")):
            for line in self._lines(batch, ended.get(name), _counted(ended, count)):
                key = line.get("custom_id")
                if not isinstance(key, str) or key not in left:
                    continue
                reply, trouble = _read(line)
                if reply is None:
                    troubles[key] = trouble
                    continue
                record_id, expected = left.pop(key)
                dollars = self._budget.paid(reply, expected, batch=True)
                self._budget.change(dollars - expected)
                self._add(batch, key, record_id, reply, dollars)
                self._answered += 1
        # Where nothing of a batch was answered, refusals may be meant for all requests.
        refused = sum(trouble.advice == "refuse" for trouble in troubles.values())
        believed = len(left) < before or (self._answered > 0 and refused < MAX_IN_A_ROW)
        for key, (record_id, expected) in left.items():
            trouble = troubles.get(key, Trouble(f"batch_{ended['status']}"))
            if trouble.reason not in MAY_BE_PAID:
                self._budget.change(-expected, -1)
            self._cache.no_answer(key, trouble.reason)
            if trouble.advice == "refuse" and believed:
                self._add(batch, key, record_id, Reply("", REFUSAL), 0.0)
            else:
                failed[record_id] = trouble

    def _open(self, batch: _Batch) -> dict[str, tuple[str, float]]:
        """The batch's requests that have no answer on disk."""
        return {key: entry for key, entry in batch.requests.items() if key not in self._cache.lines}

    def _lines(self, batch: _Batch, file_id: str | None, expected: int) -> list[dict[str, Any]]:
        """The lines of a file at the endpoint, fetched again while there are fewer than the endpoint counted.

        What is no JSON object is passed over; its request counts as not answered.
        """
        lines: list[dict[str, Any]] = []
        for attempt in range(self._config.attempts if file_id else 0):
            if attempt:
                self._patience.after(Trouble("unreadable"), attempt - 1)
            content = self._call(lambda: self._client.files.content(str(file_id)).read(), self._name(batch))
            lines.clear()
            for line in content.split(b"\n"):
                with suppress(ValueError, RecursionError):
                    lines.append(_object(line))
            if len(lines) >= expected:
                break
        return lines

    def _add(self, batch: _Batch, key: str, record_id: str, reply: Reply, dollars: float) -> None:
        lost = self._cache.lost(key)
        self._cache.add(answer_line(record_id, key, batch.prompt_hash, "openai", reply, dollars, lost))

    def _clean_up(self, batch: _Batch) -> None:
        """Delete the batch's files from the endpoint, as far as it lets us, and its note."""
        for file_id in batch.files or ():
            with suppress(openai.APIError, ValueError):
                self._client.files.with_raw_response.delete(file_id)
        self._forget(batch)

    def _look(self, batch: _Batch) -> dict[str, Any]:
        """The batch as the endpoint describes it now; ``status`` is a text."""

        def look() -> dict[str, Any]:
            found = _object(self._client.batches.with_raw_response.retrieve(str(batch.batch_id)).content)
            if _word(found.get("status")) != found.get("status"):
                raise ValueError("no batch")
            return found

        return self._call(look, self._name(batch))

    def _find(self, batch: _Batch) -> str | None:
        """The id of the batch, noted here or found at the endpoint by its name."""
        if batch.batch_id is None:
            for other in self._pages(self._client.batches.with_raw_response.list):
                if _dict(other.get("metadata")).get(NAME) == batch.name:
                    batch.batch_id = other["id"]
                    break
        return batch.batch_id

    def _find_file(self, batch: _Batch) -> str | None:
        for other in self._pages(self._client.files.with_raw_response.list):
            if other.get("filename") == f"{batch.name}.jsonl":
                return other["id"]
        return None

    def _pages(self, listing: Callable[..., Any]) -> Iterator[dict[str, Any]]:
        """All objects of a listing, page by page."""
        after: str | None = None
        while True:
            page = _object(listing(limit=100, **({"after": after} if after else {})).content)
            yield from page["data"]
            if not page.get("has_more") or not page["data"]:
                return
            after = page["data"][-1]["id"]

    def _call(self, call: Callable[[], T], what: str) -> T:
        """Try until a call succeeds; none of these calls costs anything."""
        trouble: Trouble | None = None
        for attempt in range(self._config.attempts):
            if trouble is not None:
                self._patience.after(trouble, attempt - 1)
            try:
                return call()
            except openai.APIError as error:
                trouble = diagnose(error)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                trouble = Trouble("unreadable")
            if trouble.advice != "again":
                raise refusal(self._name_there, what, trouble) from None
        raise PacerError(
            f"{self._name_there} did not answer about {what} ({trouble}) in {self._config.attempts} attempts; if it is "
            "under way, it goes on and is found again: run the stage again"
        )

    def _write(self, path: Path, questions: Sequence[Question], form: RequestForm) -> int:
        """Write the requests of one batch, as many as fit; returns how many."""
        count = size = 0
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            for question in questions[: self._config.batch_requests]:
                line = {
                    "custom_id": question.request_hash,
                    "method": "POST",
                    "url": "/v1/chat/completions",
                    "body": form.request(question.content),
                }
                content = json.dumps(line, ensure_ascii=False).encode() + b"\n"
                size += len(content)
                if count and size > MAX_BYTES:
                    break
                file.write(content)
                count += 1
        return count

    def _name(self, batch: _Batch) -> str:
        """What an error calls the batch; deleting its note gives it up."""
        return f"the batch noted in {self._folder / batch.name}.json"

    def _requests_of(self, batch: _Batch) -> Path:
        return self._folder / f"{batch.name}.jsonl"

    def _note(self, batch: _Batch) -> None:
        write_json(self._folder / f"{batch.name}.json", asdict(batch))

    def _forget(self, batch: _Batch) -> None:
        self._requests_of(batch).unlink(missing_ok=True)
        (self._folder / f"{batch.name}.json").unlink()


def _object(text: str | bytes) -> dict[str, Any]:
    """Raises ValueError: the text is no JSON object."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value


def _read(line: dict[str, Any]) -> tuple[Reply | None, Trouble]:
    """The reply in a line of an output or error file, or why there is none."""
    response = _dict(line.get("response"))
    status, body = as_status(response.get("status_code")), response.get("body")
    if status == 200:
        trouble = trouble_in(body)
        reply = None if trouble else read_completion(body) or read_body(json.dumps(body))
        return reply, trouble or Trouble("answered")
    code = _word(_dict(line.get("error")).get("code") or _dict(_dict(body).get("error")).get("code"))
    return None, status_trouble(status, code) if status is not None else Trouble(code)


def _ended(batch: dict[str, Any]) -> bool:
    """Whether a batch is over; with a status that the API does not know it is when there are answers."""
    answered = batch.get("output_file_id") or batch.get("error_file_id")
    return batch["status"] in _ENDED or bool(answered and batch["status"] not in _UNDER_WAY)


def _word(value: Any) -> str:
    """A code or status as it is shown and counted; what is none, and may be anything, is ``batch_error``."""
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", value) else "batch_error"


def _counted(batch: dict[str, Any], what: str) -> int:
    """One of ``request_counts``; 0 where the endpoint does not count."""
    count = _dict(batch.get("request_counts")).get(what)
    return count if isinstance(count, int) else 0


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
