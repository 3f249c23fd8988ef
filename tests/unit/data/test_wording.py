"""Wording that presupposes an earlier examination: hand-written sentences, real reports, and the phantom's."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from pacer.data.cleaning import CLEANERS
from pacer.data.wording import compares_with_prior, find_wording, prior_wording

COMPARING = [
    ("Compared with the prior study, the heart is larger.", "comparison"),
    ("In comparison with the study of yesterday, no pneumothorax.", "comparison"),
    ("Comparison: chest radiograph of last week.", "comparison"),
    ("The appearance of the lungs is similar.", "comparison"),
    ("Similar mild cardiomegaly.", "comparison"),
    ("The tip is in the same position.", "comparison"),
    ("The opacity was seen on the previous chest CT.", "prior study"),
    ("The nodule is known from prior PA and lateral radiographs.", "prior study"),
    ("The tube has a lower tip than on the most recent radiograph.", "prior study"),
    ("The catheter is seen as on the prior.", "prior study"),
    ("The mass is larger since ___.", "since"),
    ("No pneumothorax since the last examination.", "since"),
    ("The fracture has been there since at least 2015.", "since"),
    ("Unchanged cardiomegaly.", "unchanged"),
    ("No significant interval change.", "unchanged"),
    ("The effusion has not changed: not significantly changed.", "unchanged"),
    ("Cardiomegaly without change.", "unchanged"),
    ("Little if any change in the effusion.", "unchanged"),
    ("Interval removal of the chest tube.", "interval"),
    ("The mediastinum is stable.", "stable"),
    ("The left effusion has increased.", "change verb"),
    ("Bibasilar opacities have slightly improved.", "change verb"),
    ("The endotracheal tube has been removed.", "change verb"),
    ("A right effusion has developed.", "change verb"),
    ("Worsening pulmonary edema.", "change verb"),
    ("Improved aeration of the lower lobes.", "change verb"),
    ("Increased left pleural effusion.", "change verb"),
    ("Slight increase in size of the nodule.", "change verb"),
    ("Edema is slightly worse.", "change verb"),
    ("Possible consolidation, increased.", "change verb"),
    ("Again seen is a hiatal hernia.", "again"),
    ("Redemonstrated right apical scarring.", "again"),
    ("Prominent hila as before.", "again"),
    ("Persistent left basilar atelectasis.", "persistence"),
    ("The heart remains enlarged.", "persistence"),
    ("Residual small pneumothorax.", "persistence"),
    ("The costophrenic angle is still blunted.", "persistence"),
    ("There continues to be vascular congestion.", "persistence"),
    ("No new consolidation.", "new"),
    ("New right lower lobe opacity.", "new"),
    ("A newly placed tube ends in the stomach.", "new"),
    ("The tip is now in the right atrium.", "new"),
    ("There is no longer any pneumothorax.", "resolution"),
    ("Resolved pneumonia.", "resolution"),
    ("Near complete resolution of the effusion.", "resolution"),
    ("The heart is larger than before.", "size"),
    ("The effusion is more extensive than on the earlier film.", "size"),
    ("Lungs are better aerated.", "size"),
    ("The previously described nodule is calcified.", "previously"),
    ("Hila are as previously.", "previously"),
]

NOT_COMPARING = [
    "The lungs are clear.",
    "Increased interstitial markings.",
    "Decreased lung volumes.",
    "Interstitial markings are mildly increased.",
    "Increased opacity in the right base.",
    "Previous sternotomy.",
    "Prior granulomatous disease.",
    "No acute change.",
    "Degenerative changes of the spine.",
    "No comparison available.",
    "Comparison: None.",
    "No prior studies are available for comparison.",
    "There are no prior radiographs.",
    "In the absence of prior studies for comparison, this is suspicious.",
    "Prior radiographs are not available.",
    "Comparison with prior films would be helpful.",
    "Comparison films, if available, would help.",
    "Recommend comparison with prior images.",
    "If prior studies are available, they would be useful.",
    "The patient is in stable condition.",
    "Hemodynamically stable patient.",
    "Atelectasis, right worse than left.",
    "The right effusion is larger than the left.",
    "Density of the right apex compared to the left.",
    "Recommend follow up to ensure resolution.",
    "Follow up until resolved.",
    "Short interval follow up is advised.",
    "If symptoms persist, repeat the study.",
    "High resolution CT may be useful.",
    "Residual barium in the colon.",
    "Transferred from New York.",
    "New or old fractures are not seen.",
    "The remainder of the lungs is clear.",
    "Opacities are present against the chest wall.",
    "Multiple nodules are present, the largest of 5 mm.",
    "Surgical clips from earlier resection.",
    "Unstable fracture of the spine.",
    "Knowledge of the history would help.",
    "Progressive massive fibrosis.",
    "The most recent study is not available for comparison.",
    "If there is continued concern, a CT may help.",
]


def forms(text: str) -> list[str]:
    return [text, text.upper(), text.replace(" ", "\n", 2), *(clean(text) for clean in CLEANERS.values())]


def test_comparing() -> None:
    for text, rule in COMPARING:
        for form in forms(text):
            assert rule in prior_wording(form), form
            assert compares_with_prior(form), form


def test_not_comparing() -> None:
    for text in NOT_COMPARING:
        for form in forms(text):
            assert prior_wording(form) == (), form


def test_rules_are_named_once_in_order() -> None:
    text = "Unchanged heart. New opacity. The mediastinum is unchanged."
    assert prior_wording(text) == ("unchanged", "new")
    assert prior_wording("") == ()


def test_the_phrase_of_a_rule_is_found_where_it_stands() -> None:
    text = "As COMPARED  with\nprior study, a new line\thas been  inserted. No prior films."
    assert [(text[start:end], rule) for start, end, rule in find_wording(text)] == [
        ("COMPARED", "comparison"),
        ("prior study", "prior study"),
        ("new", "new"),
        ("has been  inserted", "change verb"),
    ]
    assert [text[start:end] for text in ["more than 24 hours"] for start, end, _ in find_wording(text)] == [
        "more than 24"
    ]
    wide = "İİ unchanged İ"  # longer in small letters
    assert [wide[start:end] for start, end, _ in find_wording(wide)] == ["unchanged"]


def test_what_hides_ends_with_its_phrase() -> None:
    assert prior_wording("No prior studies. Effusion has increased.") == ("change verb",)
    assert prior_wording("Patient in stable condition with stable effusion.") == ("stable",)


@given(st.text(st.characters(exclude_categories=())))
@example("prior \ud800 study")
@example("\0")
def test_any_text(text: str) -> None:
    assert compares_with_prior(text) == bool(prior_wording(text))
    found = find_wording(text)
    assert all(0 <= start < end <= len(text) for start, end, _ in found)
    assert all(one[1] <= two[0] for one, two in pairwise(found))


def test_repetitions_take_no_time() -> None:
    pieces = ("prior 1-", "1-", "chest ", "size of ", "has been ", "no significant ", "compare ", "since the ", "if a ")
    started = time.process_time()
    for piece in (*pieces, "comparison, ", "to ensure the "):
        for lead in ("", "prior ", "increased ", "has ", "comparison "):
            compares_with_prior(lead + piece * 300)
    assert time.process_time() - started < 5.0
