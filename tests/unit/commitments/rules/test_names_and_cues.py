"""The rules on sentences: names of findings, cues, order of checks, what ends the search."""

from __future__ import annotations

from itertools import product

import pytest

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.data.cleaning import clean_report

#: Names of each finding, but for the examples of the tables; all of them can be affirmed, denied and hedged.
NAMES = {
    "atelectasis": """atelectasis | atelectatic changes | left lower lobe collapse | segmental collapse | collapse of
        the right middle lobe | collapse of the left upper and lower lobes | collapsed left lung | discoid
        atelectases""",
    "cardiomegaly": """cardiomegaly | cardiac enlargement | enlarged cardiac silhouette | enlargement of the cardiac
        silhouette | increased heart size | borderline cardiac size""",
    "consolidation": "consolidation | lobar consolidations | consolidative change",
    "edema": """edema | oedema | pulmonary congestion | congestive heart failure | volume overload | engorgement of the
        pulmonary vasculature""",
    "enlarged mediastinum": """enlarged mediastinum | widening of the mediastinum | enlargement of the cardiomediastinal
        silhouette | prominence of the superior mediastinum""",
    "fracture": "fracture | rib fractures | fractured ribs | broken ribs",
    "lung lesion": """lung lesion | pulmonary nodules | lung mass | masses | cavitary lesion | nodular density |
        metastatic disease | neoplasm | tumor | carcinoma | malignancy | mass-like density""",
    "lung opacity": """lung opacity | opacities | hazy opacification | infiltrate | infiltration | air-space process |
        airspace opacity | interstitial abnormality | retrocardiac density""",
    "pleural effusion": """pleural effusion | pleural effusions | hemothorax | loculated fluid | fluid in the minor
        fissure | empyema""",
    "pleural abnormality": """pleural thickening | pleural scarring | pleural plaques | pleural calcification | apical
        capping | biapical pleural scar | fibrothorax | thickening of the minor fissure | fissural thickening |
        pleuro-parenchymal scarring | pleural abnormality""",
    "pneumonia": "pneumonia | bronchopneumonia | infection | infectious process | pneumonic process",
    "pneumothorax": "pneumothorax | pneumothoraces | PTX",
    "support devices": """endotracheal tube | Dobbhoff | pigtail catheter | PICC | PICC line | central venous catheter |
        internal jugular line | subclavian line | Swan-Ganz catheter | Port-A-Cath | port-a-cath | Mediport | pacer
        leads | ICD leads | defibrillator | intra-aortic balloon pump | tracheostomy tube | drain | ETT | IABP |
        LVAD | ECMO cannula | dialysis catheter | nerve stimulator""",
}
NAMED = [(finding, " ".join(name.split())) for finding, names in NAMES.items() for name in names.split("|")]


def said(report: str) -> dict[str, str]:
    """Polarity of the findings that the anchor names."""
    anchor = extract_anchor(report)
    return {finding: name for name in POLARITIES for finding in getattr(anchor, name)}


@pytest.mark.parametrize("finding", NAMES)
def test_names(finding: str) -> None:
    for name in (name for named, name in NAMED if named == finding):
        for sentence, polarity in (("There is {}.", "positive"), ("No {}.", "negative"), ("Possible {}.", "uncertain")):
            assert said(sentence.format(name)) == {finding: polarity}, name
        assert said(f"Stable {name}.") == {finding: "positive"}, name
        assert said(clean_report(f"Stable {name}.")) == {finding: "positive"}, name


#: Sentences about one finding, {} stands for it; they say what no example of the tables says.
NEGATIVE = """No {}. | Without {}. | Lungs are free of {}. | Lungs are clear of {}. | Absence of {}. | {} is not
    identified. | The {} is not visualized. | Nor is there {}. | {} has resolved. | {} has now resolved. | Interval
    resolution of {}. | Resolved {}. | {} has cleared. | Clearing of {}. | {} is no longer seen. | There is no longer
    {}. | {} is unlikely. | {}: none. | Lack of {}. | Neither {} nor scar. | The patient denies {}. | {} is not evident.
    | Possibly scarring rather than {}."""
UNCERTAIN = """Possible {}. | Possibly {}. | Probable {}. | Probably {}. | Questionable {}. | Question of {}. | This may
    represent {}. | This could represent {}. | Findings may reflect {}. | This could be {}. | It might be {}. | Concern
    for {}. | Findings concerning for {}. | Suspicious for {}. | Worrisome for {}. | {} is not excluded. | {} is
    possible. | {} is suspected. | Artifact vs. {}. | Difficult to exclude {}. | Could not rule out {}. | Possibility of
    {}. | Likely {}. | Presumed {}. | Perhaps {}. | Potential {}. | In the appropriate clinical setting, this is {}. |
    Favored to represent {}. | Bone could obscure {}. | Equivocal {}."""
POSITIVE = """There is {}. | {} is unchanged. | No change in {}. | No significant interval change in {}. | No interval
    change in {}. | {} has not changed. | {} is not significantly changed. | Without change in the {}. | No increase in
    {}. | No improvement in {}. | {} has not improved. | {} is new. | Improved {}. | {} is not only present but larger.
    | No worsening of {}. | {} has not resolved. | Incomplete clearing of {}. | {} is partially cleared. | Near complete
    resolution of {}. | Follow up to document resolution of {}."""
#: Nothing is said of the finding.
SILENT = """No new {}. | No evidence of new {}. | Please evaluate for {}. | Assess for {}. | If there is clinical
    concern for {}, repeat. | Evaluation for {} is limited. | R/o {}."""
SOME = ("pleural effusion", "pneumothorax", "pneumonia", "consolidation", "atelectasis", "fracture")


def sentences(table: str) -> list[str]:
    return [" ".join(sentence.split()) for sentence in table.split("|")]


@pytest.mark.parametrize(
    ("table", "polarity"),
    [(NEGATIVE, "negative"), (UNCERTAIN, "uncertain"), (POSITIVE, "positive"), (SILENT, None)],
    ids=["negative", "uncertain", "positive", "silent"],
)
def test_cues(table: str, polarity: str | None) -> None:
    for sentence, finding in product(sentences(table), SOME):
        text = sentence.format(finding)
        assert said(text).get(finding) == polarity, text
        assert said(f"{text.upper()}  Lungs\n are  clear.").get(finding) == polarity, text


def test_words_joined_by_the_cleaner() -> None:
    cleaned = clean_report("Bibasilar atelectasis/infiltrate. Pleura: no effusion.")
    assert "atelectasisinfiltrate" in cleaned
    assert extract_anchor(cleaned) == Anchor.of(["atelectasis", "lung opacity"], ["pleural effusion"])


def test_windows_are_local() -> None:
    near, far = "quite " * 20, "quite " * 30
    assert said(f"No {near} effusion.") == {"pleural effusion": "negative"}
    assert said(f"No {far} effusion.") == {"pleural effusion": "positive"}
    assert said(f"Effusion {near} is absent.") == {"pleural effusion": "positive"}
