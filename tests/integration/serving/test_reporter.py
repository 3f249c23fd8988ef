"""The Reporter gives what the stage ``decode`` gives, from sources as a person has them."""

from collections import Counter
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from pacer.config import Corpus
from pacer.core.anchor import Anchor, parse_anchor, render_anchor
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import read_jsonl
from pacer.core.schemas import read_images, read_records
from pacer.corpus.build_corpus import build_corpus
from pacer.corpus.source import point_to_files
from pacer.decoding import search
from pacer.decoding.extract import Extraction
from pacer.decoding.generate import Generator
from pacer.decoding.lists.maps import read_predictor
from pacer.decoding.run import decode_records, trained_generator, with_trained_views
from pacer.display.numbers import number
from pacer.features.encode import build_store
from pacer.features.encoder import ImageEncoder, open_features
from pacer.images.radiographs import open_image
from pacer.model.assemble import load_model, load_tokenizer
from pacer.model.checkpoint import read_record
from pacer.serving.case import Case, notes_of, unsupported_comparisons
from pacer.serving.package import export_model
from pacer.serving.reporter import Reporter
from tests.support.cases import listed_cases
from tests.support.dicom import write_dicom
from tests.support.profiles import profile
from tests.support.world import FEATURES, World


def commit_to_two_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make two tokens every report's commitment, with an arbitrary agreement: small models commit
    to nothing."""
    monkeypatch.setattr(
        search, "_commitment", lambda tokens, *_: tokens[:2] if len(tokens) > 2 else []
    )
    monkeypatch.setattr(
        search, "text_distance", lambda text, sides: (sum(map(ord, text)) % 5, len(text))
    )


@pytest.mark.parametrize("context", CONTEXTS)
def test_reports_are_those_of_the_decode_stage(
    world: World, reporter: Reporter, context: str
) -> None:
    """Record by record: from raw files and uncleaned text to the same text, commitment, gate and
    number of tokens."""
    lines = world.predictions(context)
    results = reporter.generate([world.case(line["record_id"]) for line in lines])
    assert len(results) == 3
    for line, result in zip(lines, results, strict=True):
        assert (result.name, result.context) == (line["record_id"], context)
        assert (result.generated, result.report, result.tokens) == (
            line["generated"],
            line["report"],
            line["tokens"],
        )
        commitment = None if result.commitment is None else result.commitment.as_dict()
        assert (commitment, result.fallback) == (line["anchor"], line["fallback"])
        assert result.gate == line["gate"] and number(result.gate) in repr(result)
        assert escape(result.report) in result._repr_html_()
        assert (
            result.probabilities is not None and result.probabilities.as_dict() == line["findings"]
        )


def test_features_that_are_read_ahead_are_those_of_their_case(
    world: World, reporter: Reporter, monkeypatch
) -> None:
    """Two threads read them; a case's images are kept until it is done, also if two streams
    alternate."""
    lines = [*world.predictions("sn")[:1], *world.predictions("mw")[:2]]
    cases = [world.case(line["record_id"]) for line in lines]
    expected = {number: reporter.generate([case])[0].generated for number, case in enumerate(cases)}
    stream, kept = Generator.stream, []

    def ahead(self: Generator, records):
        for found in stream(self, records, workers=2):
            kept.append(self.features.levels)
            yield found

    monkeypatch.setattr(Generator, "stream", ahead)
    both = zip(reporter.stream(cases, 2), reporter.stream(cases, 1), strict=True)
    first, second = (
        {number: result.generated for number, result in one} for one in zip(*both, strict=True)
    )
    assert first == second == expected and len(set(expected.values())) > 1
    assert len(kept) == 2 * len(cases) and not any(kept)


def test_a_table_of_dicom_files_asks_in_training_what_is_asked_in_use(
    world: World, tmp_path: Path
) -> None:
    """The header's view is used where the table is silent; a view that was never trained is asked
    as unknown."""
    rng, seen = np.random.default_rng(0), ["PA", "PA", "AP", None, "PA"]  # two studies in train
    rows = ["subject,study,image,view,findings,date,split,indication"]
    for study, view in enumerate(seen):
        write_dicom(
            tmp_path / f"{study}.dcm", rng.integers(0, 4095, (70, 61)), ViewPosition=view or ""
        )
        write_dicom(tmp_path / f"{study}l.dcm", rng.integers(0, 4095, (60, 61)), ViewPosition="LL")
        patient, split = ("p", "train") if study < 2 else ("q", "test")
        for image, cell in (
            (f"{study}.dcm", "" if study == 1 else "FRONTAL"),
            (f"{study}l.dcm", ""),
        ):
            rows.append(
                f"{patient},{study},{image},{cell},No effusion "
                f"{study}.,2020-01-0{study + 1},{split},Cough."
            )
    (tmp_path / "t.csv").write_text("\n".join(rows))
    given = {
        "source": "files",
        "format": "table",
        "root": str(tmp_path),
        "images": ".",
        "contexts": list(CONTEXTS),
    }
    table = {"file": "t.csv", "columns": {}}
    corpus = Corpus.model_validate(profile("table").corpus.model_dump() | given | {"table": table})
    point_to_files(corpus, tmp_path / "source")
    build_corpus(corpus, tmp_path / "source", tmp_path / "corpus")
    records = read_records(tmp_path / "corpus" / "records.parquet")
    priors = records["prior_report"].drop_nulls().to_list()
    images = read_images(tmp_path / "corpus" / "images.parquet")
    build_store(FEATURES, images, priors, world.backbones, tmp_path / "features")
    inputs = world.inputs | {
        "features": tmp_path / "features",
        "records": tmp_path / "corpus" / "records.parquet",
    }
    export_model(tmp_path / "model", world.decode, **inputs)
    read = partial(trained_generator, findings=world.root / "lists")
    table, out = (
        with_trained_views(records, set(records.filter(split="train")["view"])).filter(
            pl.col("context").is_in(["sn", "mw"])
        ),
        tmp_path / "predictions",
    )
    model = world.root / "calibrate"
    decode_records(model, world.backbones, table, tmp_path / "features", world.decode, out, read)

    reporter, asked = Reporter(tmp_path / "model", device="cpu"), Counter[str]()
    assert (reporter.views, reporter.sections) == (["PA"], ["findings"])
    for context in ("sn", "mw"):
        for line in read_jsonl(out / f"{context}.jsonl"):
            study = int(line["record_id"][-1])
            result = reporter(
                (tmp_path / f"{study}.dcm").read_bytes(),  # as the page has it
                tmp_path / f"{study}l.dcm" if context[0] == "m" else None,
                f"No effusion {study - 1}." if context[1] == "w" else None,
                "Cough.",
            )
            assert (result.context, result.generated, result.gate) == (
                context,
                line["generated"],
                line["gate"],
            )
            asked[f"{result.view}: {' '.join(result.notes)}"] += 1
    note = "the model was trained only with images of view PA; view {} is treated as unknown"
    assert asked == {
        f"other: {note.format('AP')}": 1,
        "other: ": 2,  # nobody named a view
        "PA: ": 2,
    }
    assert records.filter(study_id="2")["view"].unique().to_list() == ["AP"]


@pytest.mark.parametrize(("given", "listed_as"), listed_cases(__file__, "lists"))
def test_a_report_is_written_for_a_persons_list(
    world: World, reporter: Reporter, monkeypatch, given: str, listed_as: dict | str
) -> None:
    monkeypatch.setattr(
        reporter._generator, "decode", world.decode.model_copy(update={"max_new_tokens": 40})
    )
    cases = [world.case(line["record_id"]) for line in world.predictions("mn")[:2]]
    listed = [cases[0], replace(cases[1], commitment=given)]
    if isinstance(listed_as, str):
        with pytest.raises(DataError, match=listed_as):
            reporter.generate(listed)
        return
    expected = Anchor.of(**listed_as)
    plain, results = reporter.generate(cases), reporter.generate(listed)
    assert results[1].commitment == expected and results[1].as_dict()["commitment_given"]
    assert (
        results[1].generated.startswith(render_anchor(expected))
        and results[1].generated != plain[1].generated
    )
    assert results[0].as_dict() == plain[0].as_dict()
    unsaid = [
        finding
        for field in expected.as_dict().values()
        for finding in field
        if finding in results[1].mismatches()
    ]
    assert any(
        f"does not state as committed: {', '.join(unsaid)}" in n for n in notes_of(results)
    ) == bool(unsaid)


@pytest.mark.parametrize(("given", "listed_as"), listed_cases(__file__, "described"))
def test_a_persons_list_may_have_sides(
    describing: Reporter, reporter: Reporter, given: str, listed_as: str
) -> None:
    case = Case(Image.linear_gradient("L"), commitment=given)
    if not listed_as.startswith("positive"):
        with pytest.raises(DataError, match=listed_as):
            describing.prepare(case)
        return
    result = describing.generate([case])[0]
    expected = parse_anchor(f"<ANCHOR> {listed_as}", sides=True)
    assert (
        result.generated.startswith(f"<ANCHOR> {listed_as} </ANCHOR>")
        and result.commitment == expected
    )
    assert result.as_dict()["commitment"] == expected.as_dict() and expected.attributes
    for text in map(expected.text, expected.positive):
        assert text in repr(result)
    if describing.prepare(case).commitment.attributes:
        with pytest.raises(DataError, match="this model was trained with lists without sides"):
            reporter.prepare(case)


CHOICES = [{"select": "agreement"}, {"commitment": "read", "select": "agreement"}]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: ", ".join(choice.values()))
def test_reports_by_other_choices_are_those_of_the_decode_stage(
    world: World, reporter: Reporter, monkeypatch, choice: dict[str, str]
) -> None:
    """Whatever the batch; a predicted list is that of the threshold."""
    if "commitment" not in choice:
        commit_to_two_tokens(monkeypatch)
    decode = world.decode.model_copy(
        update=choice | {"threshold": 0.6, "max_new_tokens": 40, "candidates": 2}
    )
    monkeypatch.setattr(reporter._generator, "decode", decode)
    lines = [*world.predictions("sn")[:1], *world.predictions("mw")[:1]]
    ids = [line["record_id"] for line in lines]
    results = reporter.generate([world.case(record_id) for record_id in ids])
    model, record = load_model(world.root / "calibrate", world.backbones)
    store = open_features(world.root / "features", world.backbones, "cpu")
    predictor = read_predictor(world.root / "lists", world.root / "calibrate")
    stage = Generator(
        model, load_tokenizer(world.backbones), store, record.model, decode, "cpu", predictor
    )
    rows = {row["record_id"]: row for row in world.records().iter_rows(named=True)}
    assert [result.generated for result in results] == [
        one.text for i in ids for one in stage([rows[i]])
    ]
    assert [result.generated for result in results] != [line["generated"] for line in lines]
    if "commitment" in choice:
        chances = [result.probabilities for result in results]
        assert [result.commitment for result in results] == [
            one and one.commitment(0.6) for one in chances
        ]
        stage.decode = decode.model_copy(update={"threshold": 0.99})
        (strict,) = stage([rows[ids[0]]])
        assert chances[0] is not None and strict.text.startswith(
            render_anchor(chances[0].commitment(0.99))
        )
    monkeypatch.setattr(
        reporter._generator, "extract", lambda text: Extraction("no edema .", None, False)
    )
    noted = [
        "were left out" in str(one.notes)
        for one in (*results, *reporter.generate([world.case(ids[0])]))
    ]
    assert noted == [False] * len(results) + [True]


@pytest.mark.parametrize(
    ("commits", "reason"), [(True, "`lists` stage"), (False, "trained without Commit")]
)
def test_reading_is_refused_with_the_reason(
    world: World, reporter: Reporter, commits: bool, reason: str
) -> None:
    own, decode = reporter._generator, world.decode.model_copy(update={"commitment": "read"})
    described = read_record(world.root / "calibrate").model
    if not commits:
        described = described.model_copy(update={"commit": None})
    with pytest.raises(ConfigError, match=reason):
        Generator(own.model, own.tokenizer, own.features, described, decode)


def test_depth_weights_are_those_of_the_decode_stage(world: World, reporter: Reporter) -> None:
    stored = load_file(world.root / "predictions" / "routing.safetensors")
    assert {name.split("/")[1] for name in stored} == {"frontal", "lateral"}
    for name, weights in stored.items():
        record_id, view = name.split("/")
        routing = getattr(reporter.generate([world.case(record_id)])[0], view)
        assert torch.equal(torch.from_numpy(routing.weights).flatten(0, 1), weights)
        np.testing.assert_allclose(routing.weights.sum(-1), 1, atol=1e-5)
        assert routing.depths == (1, 2, 3) and abs(sum(routing.means().values()) - 1) < 1e-5


def test_a_patch_of_the_map_lies_where_its_evidence_is(
    reporter: Reporter, exported: Path, tmp_path: Path
) -> None:
    """``image`` is what the encoder saw, and the weights' rows and columns are its own."""
    wide = np.random.default_rng(1).integers(0, 255, (60, 200), dtype=np.uint8)
    result = reporter(Image.fromarray(wide))
    assert result.frontal.image.shape == (56, 56) and result.frontal.weights.shape == (4, 4, 3)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    encoder = ImageEncoder(exported / "backbones" / "vision", [1, 2, 3])
    levels = encoder.preparation.levels(open_image(tmp_path / "wide.png"))
    np.testing.assert_array_equal(result.frontal.image, levels[0])
    # row-major: the embedding of one patch alone changes when its pixels do
    changed = levels.clone()
    changed[:, 14:28, 42:56] = 255 - changed[:, 14:28, 42:56]
    embed = encoder.model.embeddings.patch_embeddings
    moved = (
        embed(encoder.preparation.values(levels[None]))
        - embed(encoder.preparation.values(changed[None]))
    ).abs()
    assert moved.sum(-1).view(4, 4).nonzero().tolist() == [[1, 3]]


@pytest.mark.parametrize("study", ["50000002", "50000003", "50000004"])
def test_every_kind_of_source_gives_the_same_report(
    world: World, reporter: Reporter, study: str
) -> None:
    """A path as text or Path, bytes, and an image that Pillow opened: colour, DICOM, 16 bits."""
    case = world.case(f"sn-{study}")
    path = Path(str(case.frontal))
    expected = reporter(path, indication=case.indication, view="PA")
    forms: list = [str(path), path.read_bytes()]
    if path.suffix != ".dcm":
        forms.append(Image.open(path))
    for form in forms:
        result = reporter(form, indication=case.indication, view="PA")
        assert (result.generated, result.gate) == (expected.generated, expected.gate)
        np.testing.assert_array_equal(result.frontal.weights, expected.frontal.weights)


def test_all_contexts_are_the_case_with_sources_left_out(world: World, reporter: Reporter) -> None:
    case = world.case("mw-50000003")
    results = reporter.in_all_contexts(case)
    assert list(results) == list(CONTEXTS)
    for context, result in results.items():
        line = next(
            line for line in world.predictions(context) if line["record_id"].endswith("50000003")
        )
        assert (result.context, result.generated, result.gate) == (
            context,
            line["generated"],
            line["gate"],
        )
        assert (result.lateral is None) == (context[0] == "s")
    assert list(reporter.in_all_contexts(world.case("mn-50000003"))) == ["sn", "mn"]


def test_the_view_comes_from_the_person_then_from_the_dicom_file(
    tmp_path: Path, reporter: Reporter
) -> None:
    values = np.random.default_rng(0).integers(0, 4095, (60, 60))
    frontal = write_dicom(tmp_path / "f.dcm", values, ViewPosition="AP")
    lateral = write_dicom(tmp_path / "l.dcm", values[::-1], ViewPosition="LL")
    assert reporter.prepare(Case(frontal)).view == "AP"
    assert reporter.prepare(Case(frontal, view="PA")).view == "PA"
    # like a table's, a view that is only frontal leaves its direction to the header
    views = {
        "pa ": "PA",
        "postero-anterior": "PA",
        "AP SUPINE": "AP",
        "Frontal": "AP",
        "other": "other",
    }
    for words, view in views.items():
        assert reporter.prepare(Case(frontal, view=words)).view == view
    assert reporter.prepare(Case(Image.linear_gradient("L"))).view == "other"
    assert reporter.prepare(Case(frontal, lateral)).notes == ()
    shoulder = write_dicom(
        tmp_path / "s.dcm", values, BodyPartExamined="SHOULDER", ViewPosition="PA"
    )
    assert reporter.prepare(Case(shoulder)).notes == (
        "the image given as frontal: BodyPartExamined is SHOULDER",
    )
    assert reporter.prepare(Case(lateral, frontal, view="PA")).notes == (
        "the DICOM file given as frontal is marked as a lateral view",
        "the DICOM file given as lateral is marked as a frontal view",
    )


@pytest.mark.parametrize(
    ("report", "prior", "expected"),
    [
        ("there is no longer any left lung consolidation .", "severe edema .", ["consolidation"]),
        ("unchanged edema . small effusion .", "no edema .", ["edema"]),
        ("unchanged edema . effusion has increased .", "possible edema . effusion .", []),
        ("new effusion . no new consolidation . edema .", "severe edema . consolidation .", []),
        ("new moderate edema . new effusion .", "severe edema .", ["edema"]),
        ("stable cardiomegaly .", None, ["cardiomegaly"]),
    ],
)
def test_comparisons_that_the_previous_report_does_not_support(
    report: str, prior: str | None, expected: list[str]
):
    assert unsupported_comparisons(report, prior) == expected
