"""Export of a trained model to one directory that works without the pipeline."""

import shutil
from collections import Counter
from pathlib import Path

from pacer.config import Decode
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import CheckpointError, DataError
from pacer.core.io import atomic_directory, check_replaceable, read_json, write_json
from pacer.core.pointers import POINTER, PROVENANCE, provenance, read_pointer, resolve, write_pointer
from pacer.data.schemas import read_about, read_records
from pacer.decoding.reader import read_reader
from pacer.features import prepare
from pacer.features.store import MANIFEST as STORE
from pacer.features.store import ROUNDING_VERSION, FeatureStore
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
)
from pacer.serving.layout import BACKBONES, CARD, FINDINGS, SETTINGS
from pacer.serving.package import GENERATED, TRAINED, VERSION, PackageSettings, States, Texts, write_manifest


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
        out: absent or empty. decode: the decoding settings.
        model, backbones, features, records: outputs of the stages ``calibrate`` (or ``parent``), ``backbones``,
            ``features`` and ``corpus``.
        findings: output of ``findings``; None: the exported model reads no findings.
        with_backbones: copy the frozen models; else the directory refers to them, with hashes.

    Raises:
        DataError: ``out`` is not empty or cannot be written, or an input is missing. CheckpointError: the model is a
            warm-up, or was trained with other frozen models than those in ``backbones``.
    """
    check_replaceable(out)
    if read_record(model).phase == "warmup":
        raise CheckpointError(
            f"{model} is a warm-up, which cannot write reports; export models/parent or models/calibrate"
        )
    record, weights = load_weights(model)
    check_frozen(record, frozen_fingerprints(backbones), model)
    settings = _settings(records, features, record, decode)
    reader = None if findings is None else read_reader(findings, model)
    if decode.risk.promised:
        raise DataError(
            "decode.risk cannot be exported: it holds only for patients like those in val, and its thresholds are "
            "not stored; set its limits to null, and decode.threshold to the threshold you want"
        )
    if decode.commitment == "read" and reader is None:
        raise DataError("decode.commitment = 'read' needs the output of the `findings` stage; run `dvc repro findings`")
    train = read_records(records, ["record_id", "split", "view", "sections"]).filter(split="train")
    about = {
        TRAINED: {name: [value for value, _ in Counter(train[name]).most_common()] for name in ("view", "sections")},
        "software": {"pacer": version_of("pacer"), **package_versions()},
        GENERATED: bool(read_about(records).get("generated")),
    }
    with atomic_directory(out) as directory:
        save_checkpoint(directory, weights, record.model_copy(update={"parent": None}))
        if reader is not None:
            reader.save(directory / FINDINGS, {"weights": checkpoint_hash(directory)})
        write_json(directory / SETTINGS, settings.written())
        for name in FROZEN:
            _bring(backbones / name, directory / BACKBONES / name, copy=with_backbones)
        write_manifest(directory, about)
        # not in the manifest: a person may add to it
        shutil.copyfile(Path(__file__).parent / "templates" / "card.md", directory / CARD)


def _settings(records: Path, features: Path, record: CheckpointRecord, decode: Decode) -> PackageSettings:
    trained = set(read_records(records).filter(split="train")["context"])
    about = read_about(records)
    if not trained or not {"cleaner", "target"} <= about.keys():
        raise DataError(f"{records} has no training records, or does not record its cleaner; run the `corpus` stage")
    return PackageSettings(
        version=VERSION,
        contexts=[context for context in CONTEXTS if context in trained],
        states=_states(features, record),
        texts=Texts(cleaner=about["cleaner"], target=about["target"]),
        search=decode,
    )


def _states(features: Path, record: CheckpointRecord) -> States:
    """Return how the states in the store were computed, which training and decoding read."""
    encoding, recipes = FeatureStore(features).encoding, read_json(features / STORE).get("recipes")
    made_with = encoding.encoders, encoding.depths, encoding.rounding, recipes and recipes["images"]["preparation"]
    encoders = {name: record.frozen[name] for name in encoding.encoders}
    if made_with != (encoders, record.model.features.depths, ROUNDING_VERSION, prepare.VERSION):
        raise DataError(
            f"{features} was not made with the encoders and depths that the model was trained with, or comes from a "
            "different version of PACER; run `dvc repro features` with the model's training settings, or retrain"
        )
    return States(
        depths=encoding.depths,
        dtype=encoding.dtype,
        precision=encoding.precision,
        prior_tokens=recipes["priors"]["prior_tokens"],
        preparation=recipes["images"]["preparation"],
        rounding=encoding.rounding,
    )


def _bring(source: Path, out: Path, *, copy: bool) -> None:
    """Write a frozen model as a copy of its files or a pointer with their hashes; both keep the model's fingerprint."""
    target = resolve(source)
    names = [file.name for file in target.iterdir() if file.is_file() and file.name != PROVENANCE]
    if (source / POINTER).is_file():
        names = list(read_pointer(source).files)
    out.mkdir(parents=True)
    if copy:
        for name in names:
            shutil.copyfile(target / name, out / name)
    else:
        write_pointer(target, sorted(names), out)
    write_json(out / PROVENANCE, provenance(source))
