"""Writing of a phantom world as a raw corpus in MIMIC-RG4's layout.

images/p1x/p1xxxxxxx/s5xxxxxxx/<name>.jpg     radiographs
sn.json sw.json mn.json mw.json               annotation files, {train, val, test: [record]}
truth.parquet                                 the latent state of every examination
answers.jsonl                                 recorded labelling answers for the train records
source.json, manifest.json                    location and origin of the files
"""

import json
from pathlib import Path

import polars as pl
from tokenizers import Tokenizer

from pacer.config.corpus import Phantom
from pacer.core.contexts import CONTEXTS, Context, availability
from pacer.core.findings import FINDINGS
from pacer.core.io import hash_bytes, write_json, write_jsonl
from pacer.core.progress import Ticker
from pacer.core.schemas import EMPHASIS_POSITIONS, SPLITS, TRUTH_SCHEMA
from pacer.corpus.source import describe_source
from pacer.phantom.language import PhantomReport, contexts_of, fullest_report_of, report_of
from pacer.phantom.render import count_images, image_path, write_images
from pacer.phantom.tokenizer import VOCABULARY, phantom_tokenizer
from pacer.phantom.wording import degree
from pacer.phantom.world import FindingState, PhantomStudy, make_world
from pacer.text.cleaning.cleaners import clean_report, sentence_ends, token_marks

#: Mark of an absent section.
ABSENT_TEXT = "s"
#: Mark of an absent indication or history.
ABSENT_CLINICAL = 0
#: Creation time of all recorded answers, in seconds since 1970, which is fixed so that nothing in a
#: phantom depends on the clock.
_CREATED = 1_735_689_600
#: Pixels on a side of a radiograph, as many as the stand-in of the encoder reads.
IMAGE_SIZE = 112


def generate_phantom(
    config: Phantom,
    seed: int,
    directory: Path,
    image_size: int = IMAGE_SIZE,
    vocabulary: int = VOCABULARY,
) -> None:
    """Write the world of ``seed`` below ``directory``; it depends only on the arguments.

    ``manifest.json`` has the hash of the tokenizer that ``new_scores`` refer to.
    """
    world = make_world(seed, **config.model_dump())
    studies = [study for patient in world for study in patient.studies]
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = phantom_tokenizer(vocabulary)
    files: dict[str, dict[str, list[dict]]] = {
        context: {split: [] for split in SPLITS} for context in CONTEXTS
    }
    with Ticker("reports", len(studies)) as ticker:
        for study in studies:
            for context in contexts_of(study):
                files[context][study.split].append(_record(study, context, tokenizer))
            ticker.advance()
    for context, splits in files.items():
        write_json(directory / f"{context}.json", splits)
    boxes = write_images(studies, image_size, directory / "images")
    answers = (
        _recorded_answer(report_of(study, context))
        for study in studies
        if study.split == "train"
        for context in contexts_of(study)
    )
    write_jsonl(directory / "answers.jsonl", answers)
    truth_table(studies, boxes).write_parquet(directory / "truth.parquet")
    annotations = {context: f"{context}.json" for context in files}
    write_json(directory / "source.json", describe_source(directory, ".", "images", annotations))
    counts = {"patients": len(world), "studies": len(studies), "images": count_images(studies)}
    records = {
        context: {split: len(rows) for split, rows in splits.items()}
        for context, splits in files.items()
    }
    manifest = {
        "kind": "phantom",
        "seed": seed,
        "parameters": config.model_dump(),
        "counts": counts | {"records": records},
        "tokenizer": {
            "vocabulary": vocabulary,
            "sha256": hash_bytes(tokenizer.to_str().encode()),
        },
    }
    write_json(directory / "manifest.json", manifest)


def truth_table(studies: list[PhantomStudy], boxes: dict[str, list[dict]]) -> pl.DataFrame:
    """Return ``truth.parquet``, one row per examination; ``boxes``: the regions of its findings, by
    study id."""
    rows = []
    for study in studies:
        row: dict[str, object] = {
            "study_id": study.study_id,
            "subject_id": study.subject_id,
            "split": study.split,
        }
        row |= {finding: finding in study.findings for finding in FINDINGS}
        row["lateral_only"] = [name for name in FINDINGS if name in study.lateral_only]
        row["prior_only"] = [name for name in FINDINGS if name in study.prior_only]
        row["states"] = [_described(state) for state in study.findings.values()]
        row["boxes"] = boxes[study.study_id]
        rows.append(row)
    return pl.DataFrame(rows, TRUTH_SCHEMA)


def _described(state: FindingState) -> dict[str, str | None]:
    """Return the attributes of a finding that a report can state; the side is null if no view shows
    one."""
    side = None if state.side == "central" or state.lateral_only else state.side
    return {
        "finding": state.finding,
        "side": side,
        "severity": degree(state),
        "course": state.course,
    }


def _recorded_answer(report: PhantomReport) -> dict:
    """Return a line of ``answers.jsonl``: ``{"record_id", "response"}``; the response is a
    chat.completion object.

    It is not from a language model: it lists the findings that the report states.
    """
    record_id = f"{report.context}-{report.study.study_id}"
    rationale = {
        finding: " ".join(text.rstrip(".").split()[:8])
        for text, findings in reversed(report.sentences)
        for finding in sorted(findings)
    }
    lists = {status: report.listed(status) for status in ("positive", "negative", "uncertain")}
    content = json.dumps({"sample_uid": record_id, **lists, "rationale": rationale})
    prompt_tokens = 640 + 2 * len(report.text.split())
    completion_tokens = len(content) // 4
    message = {"role": "assistant", "content": content, "refusal": None}
    response = {
        "id": f"chatcmpl-{record_id}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": "phantom-recorded",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }
    return {"record_id": record_id, "response": response}


def _record(study: PhantomStudy, context: Context, tokenizer: Tokenizer) -> dict[str, object]:
    """Create a record with the fields of its context in MIMIC-RG4."""
    lateral, prior = availability(context)
    report = report_of(study, context)
    record: dict[str, object] = {
        "id": study.study_id,
        "finding": report.findings or ABSENT_TEXT,
        "impression": report.impression or ABSENT_TEXT,
        "APPA_flag": study.view,
        "APPA_imagepath": image_path(study, "frontal"),
    }
    if lateral:
        record["lateral_imagepath"] = image_path(study, "lateral")
    if prior and study.prior is not None:
        previous = fullest_report_of(study.prior)
        record["last_finding"] = previous.findings or ABSENT_TEXT
        record["last_impression"] = previous.impression or ABSENT_TEXT
        record["last_APPA_imagepath"] = image_path(study.prior, "frontal")
    record["history"] = study.history or ABSENT_CLINICAL
    record["indication"] = study.indication or ABSENT_CLINICAL
    record["new_scores"] = emphasis_scores(report, tokenizer)
    return record


def emphasis_scores(report: PhantomReport, tokenizer: Tokenizer) -> list[float]:
    """Return ``new_scores`` as in the released files: the tokens of a report that state findings.

    The list has one number per token of ``<s> cleaned report </s>``: 1.0 in sentences that state a
    finding, else 0.0. A possible finding counts as stated; ``<s>`` and ``</s>`` are 0.0. The list
    is cut at 100 entries. Raises a ValueError if cleaning changed the number of sentences.
    """
    cleaned = clean_report(report.text)
    ends = sentence_ends(cleaned)
    if len(ends) != len(report.sentences):
        raise ValueError(f"cleaning turned {len(report.sentences)} sentences into {len(ends)}")
    tokens = tokenizer.encode(cleaned, add_special_tokens=False)
    marks = token_marks(
        ends, [bool(stated) for _, stated in report.sentences], [end for _, end in tokens.offsets]
    )
    return marks[:EMPHASIS_POSITIONS]
