"""Writing and reading an exported model directory; ``docs/serving.md`` has a table of its
contents."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pacer.backbones.external import locate
from pacer.backbones.pointers import (
    POINTER,
    PROVENANCE,
    Pointer,
    hashes_of,
    is_standin,
    provenance,
    read_pointer,
    resolve,
    write_pointer,
)
from pacer.config import Backbone, Decode, Positive, Strict, read_params
from pacer.config.corpus import Cleaner
from pacer.config.strict import Tokens
from pacer.core.contexts import CONTEXTS, Context
from pacer.core.errors import BackboneError, CheckpointError, DataError
from pacer.core.io import atomic_directory, check_replaceable, hash_file, read_json, write_json
from pacer.core.schemas import read_about, read_records
from pacer.decoding.hypotheses import TEMPERATURE
from pacer.decoding.lists.maps import read_predictor
from pacer.display.numbers import number
from pacer.features.encoder import PREPARATION_VERSION
from pacer.features.store import MANIFEST as STORE
from pacer.features.store import ROUNDING_VERSION, FeatureStore
from pacer.metrics.result import Result
from pacer.metrics.signature import version_of
from pacer.model.assemble import FROZEN, frozen_fingerprints
from pacer.model.checkpoint import (
    CheckpointRecord,
    check_frozen,
    checkpoint_hash,
    load_weights,
    package_versions,
    read_record,
    save_checkpoint,
    weights_hash,
)
from pacer.serving.layout import BACKBONES, CARD, MANIFEST, READING, SETTINGS, check_exported
from pacer.statistics.checks import above_chance
from pacer.statistics.system import Scores

#: Version of this layout; increases with every change that older software cannot read.
VERSION = 1
#: Entry of the manifest: whether the model was trained on a generated corpus (absent: unknown).
GENERATED = "generated_corpus"
#: Entry of the manifest: sentences on what the scores of the model do not show (absent: unknown).
CAUTIONS = "cautions"
#: Entry of the manifest: the views and sections in the prompts of training, the most frequent
#: first.
TRAINED = "trained_prompts"
#: Keys of the group ``decode`` that do not change a report and are not exported, and their values
#: here.
NOT_EXPORTED = {"split": "test", "limit": None, "examples": 0, "controls": []}


class States(Strict):
    """How the states in the model's training were computed."""

    depths: Annotated[list[Positive], Field(min_length=1)]
    dtype: Literal["float32", "float16", "bfloat16"]
    precision: Literal["float32", "bfloat16"]
    prior_tokens: Tokens
    #: Version of the preparation of images, which increases when the states change.
    preparation: Positive
    #: Version of the rounding of states, likewise.
    rounding: Positive


class Texts(Strict):
    """How reports were prepared in the model's training."""

    #: The cleaner of previous reports.
    cleaner: Cleaner
    #: The sections that the model was trained to write.
    target: Literal["findings_and_impression", "findings"]


def _whole_group(written: Any) -> Any:
    """Return the written decoding settings as a complete group ``decode``. Exports of earlier
    versions have the removed settings ``engine``, which never changed a report, ``risk``, always
    without a limit, and ``temperature``."""
    if not isinstance(written, dict) or NOT_EXPORTED.keys() & written.keys():
        return written
    limits = written.get("risk") or {}
    unset = isinstance(limits, dict) and not (limits.get("false_present") or limits.get("missed"))
    removed = {"engine", "risk"} if unset else {"engine"}
    settings = {key: value for key, value in written.items() if key not in removed}
    if settings.get("temperature") == TEMPERATURE:
        del settings["temperature"]
    return NOT_EXPORTED | settings


class PackageSettings(Strict):
    """The settings that determine a report, besides weights, tokenizer and frozen models
    (``reporter.json``)."""

    version: Positive
    contexts: Annotated[list[Context], Field(min_length=1)]
    states: States
    texts: Texts
    #: ``search`` is its name in exported folders.
    decoding: Annotated[Decode, BeforeValidator(_whole_group), Field(alias="search")]


def read_settings(directory: Path) -> PackageSettings:
    """Read the settings of an exported model, and check its files against the manifest.

    Raises:
        CheckpointError: the folder is not an exported model, has another version, or a file is
            missing or has changed.
        ConfigError: a setting is not valid.
    """
    check_exported(directory)
    manifest = read_json(directory / MANIFEST)
    if manifest["version"] != VERSION:
        raise CheckpointError(
            f"{directory} uses layout version {manifest['version']!r}, but this version of PACER "
            f"reads layout version {VERSION}; export the model again, or use the version that "
            "exported it"
        )
    # excludes files behind a link to a folder and files outside the directory
    present = {
        str(PurePosixPath(path.relative_to(directory)))
        for path in directory.rglob("*")
        if path.is_file()
    }
    for name, expected in manifest["files"].items():
        if name not in present:
            raise CheckpointError(
                f"{directory} is incomplete: {name:.200} is missing; copy the folder again"
            )
        if hash_file(directory / name) != expected:
            raise CheckpointError(
                f"{directory / name} has changed since it was exported; copy the folder again"
            )
    settings = read_params(directory / SETTINGS, PackageSettings)
    states = settings.states
    if (states.preparation, states.rounding) != (PREPARATION_VERSION, ROUNDING_VERSION):
        raise CheckpointError(
            f"{directory} was exported by a version of PACER that prepares images or rounds states "
            "differently; use that version"
        )
    return settings


def trained_prompts(directory: Path) -> dict[str, list[str]]:
    """Return :data:`TRAINED` of an exported model: ``view`` and ``sections``; empty if it is from
    an older version."""
    return read_json(directory / MANIFEST).get(TRAINED, {})


@contextmanager
def frozen_models(directory: Path, given: Path | None) -> Generator[Path]:
    """Yield a temporary folder ``{vision,language,text}`` from which the frozen models can be
    loaded.

    If the target of a pointer is gone, the same revision in this machine's hub cache is used.
    Hashes are compared wherever a model is stored. Raises a BackboneError if a frozen model was not
    found; the message describes how to get it.

    Args:
        given: a folder with some or all of the three, which are used instead of the directory's
            own.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for name in FROZEN:
            source = directory / BACKBONES / name
            pointer: Pointer | None = None
            if given is not None and (given / name).is_dir():
                source = given / name
            elif (source / POINTER).is_file():
                pointer = read_pointer(source)
            if pointer is None or os.path.isdir(pointer.path):
                (root / name).symlink_to(source.absolute(), target_is_directory=True)
            else:
                (root / name).mkdir()
                moved = pointer.model_copy(
                    update={"path": str(_cached(source, name, pointer.path))}
                )
                write_json(root / name / POINTER, moved.model_dump())
        yield root


def _cached(source: Path, name: str, path: str) -> Path | None:
    """Return the path of the same revision of a published model in the hub cache."""
    origin = provenance(source)
    if origin.get("provider") != "hub":
        raise BackboneError(
            f"the frozen {name} model is not at {path}, where it was when {source} was exported; "
            "pass the folder that contains it as backbones (--backbones), or export again with "
            "with_backbones=True (--with-backbones)"
        )
    revision = str(origin.get("commit") or origin.get("revision"))
    return locate(Backbone(provider="hub", id=str(origin.get("id")), revision=revision), name)


def export_model(
    out: Path,
    decode: Decode,
    *,
    model: Path,
    backbones: Path,
    features: Path,
    records: Path,
    findings: Path | None = None,
    with_backbones: bool = False,
) -> None:
    """Write a self-contained model directory, completely or not at all.

    Args:
        out: absent or empty.
        decode: the decoding settings.
        model: output of the stage ``calibrate`` (or ``parent``).
        backbones: output of ``backbones``.
        features: output of ``features``.
        records: table of ``corpus``.
        findings: output of ``findings``; None: the exported model reads no findings.
        with_backbones: copy the frozen models; else the directory refers to them, with hashes.

    Raises:
        DataError: ``out`` is not empty or cannot be written, or an input is missing.
        CheckpointError: the model is a warm-up, or was trained with other frozen models than those
            in ``backbones``.
    """
    check_replaceable(out)
    if read_record(model).phase == "warmup":
        raise CheckpointError(
            f"{model} is a warm-up checkpoint, which cannot write reports; export models/parent or "
            "models/calibrate"
        )
    record, weights = load_weights(model)
    check_frozen(record, frozen_fingerprints(backbones), model)
    train = read_records(records).filter(split="train")
    about = read_about(records)
    if train.is_empty() or not {"cleaner", "target"} <= about.keys():
        raise DataError(
            f"{records} has no training records, or does not name its cleaner; run the `corpus` "
            "stage"
        )
    settings = PackageSettings(
        version=VERSION,
        contexts=[context for context in CONTEXTS if len(train.filter(context=context))],
        states=_states(features, record),
        texts=Texts(cleaner=about["cleaner"], target=about["target"]),
        search=decode,
    )
    predictor = None if findings is None else read_predictor(findings, model)
    if decode.commitment == "read" and predictor is None:
        raise DataError(
            "decode.commitment = 'read' needs the output of the `lists` stage; run `dvc repro "
            "lists`"
        )
    entries = {
        TRAINED: {
            name: [value for value, _ in Counter(train[name]).most_common()]
            for name in ("view", "sections")
        },
        "software": {"pacer": version_of("pacer"), **package_versions()},
        GENERATED: bool(about.get("generated")),
    }
    with atomic_directory(out) as directory:
        save_checkpoint(directory, weights, record.model_copy(update={"parent": None}))
        if predictor is not None:
            predictor.save(directory / READING, {"weights": checkpoint_hash(directory)})
        exported = settings.model_dump(by_alias=True, exclude={"decoding": set(NOT_EXPORTED)})
        write_json(directory / SETTINGS, exported)
        for name in FROZEN:
            _copy_or_link(backbones / name, directory / BACKBONES / name, copy=with_backbones)
        files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
        hashes = {
            str(PurePosixPath(path.relative_to(directory))): hash_file(path) for path in files
        }
        write_json(directory / MANIFEST, {"version": VERSION, **entries, "files": hashes})
        # not in the manifest: a person may add to it
        shutil.copyfile(Path(__file__).parent / "templates" / "card.md", directory / CARD)


def add_cautions(directory: Path, model: Path, scores: Path) -> None:
    """Write into the manifest of an exported model what the page of its run warns of: stand-ins
    among its frozen models, F1 of its reports beside F1 by chance, and reasons not to trust its
    scores. ``model``: the checkpoint that was exported; ``scores``: output of ``score``, of this
    model or not."""
    backbones = directory / BACKBONES
    standins = [name for name in FROZEN if is_standin(provenance(backbones / name))]
    cautions: list[str] = []
    if standins:
        listed = ", ".join(standins)
        cautions.append(f"its frozen models are stand-ins, not published models: {listed}")
    cautions += _cautions_of_scores(scores, weights_hash(model))
    manifest = read_json(directory / MANIFEST)
    write_json(directory / MANIFEST, {**manifest, CAUTIONS: cautions})


def _cautions_of_scores(scores: Path, weights: str) -> list[str]:
    unscored = ["it was exported without scores, so it may be no better than chance"]
    if not (scores / "scores.json").is_file():
        return unscored
    result = Scores.of(Result.read(scores, whole=False))
    predictions = result.signature.predictions or {}
    if predictions.get("weights") != weights:
        return unscored
    cautions = [warning.rstrip(".") for warning in result.warnings]
    reports = above_chance(result.cases, result.convention).get("Reports")
    if reports:
        of_all = list(reports.values())[-1]
        cautions.insert(
            0,
            f"F1 of the findings that its reports affirm is {number(of_all.second)} on split "
            f"{predictions['split']}; by chance, with other patients' references, it is "
            f"{number(of_all.first)}",
        )
    return cautions


def _states(features: Path, record: CheckpointRecord) -> States:
    """Return how the states in the store were computed, which training and decoding read."""
    encoding = FeatureStore(features).encoding
    recipes = read_json(features / STORE).get("recipes")
    encoders = {name: record.frozen[name] for name in encoding.encoders}
    is_same = (
        encoding.encoders == encoders
        and encoding.depths == record.model.features.depths
        and encoding.rounding == ROUNDING_VERSION
        and recipes
        and recipes["images"]["preparation"] == PREPARATION_VERSION
    )
    if not is_same:
        raise DataError(
            f"{features} was not made with the encoders and depths that the model was trained "
            "with, or comes from a different version of PACER; run `dvc repro features` with the "
            "model's training settings, or retrain"
        )
    return States(
        depths=encoding.depths,
        dtype=encoding.dtype,
        precision=encoding.precision,
        prior_tokens=recipes["priors"]["prior_tokens"],
        preparation=recipes["images"]["preparation"],
        rounding=encoding.rounding,
    )


def _copy_or_link(source: Path, out: Path, *, copy: bool) -> None:
    """Write a frozen model as a copy of its files or a pointer with their hashes; both keep the
    model's fingerprint."""
    target = resolve(source)
    names = list(hashes_of(source))
    out.mkdir(parents=True)
    if copy:
        for name in names:
            shutil.copyfile(target / name, out / name)
    else:
        write_pointer(target, names, out)
    write_json(out / PROVENANCE, provenance(source))
