"""The rules on sentences: names of findings, cues, order of checks, what ends the search."""

from __future__ import annotations

from itertools import product

import pytest

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.data.cleaning import clean_report

#: Names of each finding; all of them can be affirmed, denied and hedged.
NAMES = {
    "atelectasis": """atelectasis | bibasilar atelectasis | plate-like atelectasis | atelectatic changes | left lower
        lobe collapse | segmental collapse | collapse of the right middle lobe | collapse of the left upper and lower
        lobes | collapsed left lung | discoid atelectases""",
    "cardiomegaly": """cardiomegaly | cardiac enlargement | enlarged heart | enlarged cardiac silhouette | enlargement
        of the heart | enlargement of the cardiac silhouette | increased heart size | borderline cardiac size""",
    "consolidation": "consolidation | focal consolidation | lobar consolidations | consolidative change",
    "edema": """edema | pulmonary edema | oedema | interstitial edema | vascular congestion | pulmonary congestion |
        congestive heart failure | heart failure | CHF | volume overload | fluid overload | cephalization | vascular
        engorgement | engorgement of the pulmonary vasculature | pulmonary venous hypertension | Kerley B lines |
        congested pulmonary vessels""",
    "enlarged mediastinum": """enlarged mediastinum | widened mediastinum | mediastinal widening | widening of the
        mediastinum | enlargement of the cardiomediastinal silhouette | prominence of the superior mediastinum""",
    "fracture": "fracture | rib fractures | displaced clavicular fracture | fractured ribs | broken ribs",
    "lung lesion": """lung lesion | nodule | pulmonary nodules | lung mass | masses | cavitary lesion | nodular
        opacity | nodular density | metastases | metastatic disease | neoplasm | tumor | carcinoma | malignancy |
        mass-like density""",
    "lung opacity": """lung opacity | opacity | opacities | hazy opacification | infiltrate | infiltration | airspace
        disease | air-space process | airspace opacity | interstitial markings | interstitial abnormality | patchy
        density | retrocardiac density | reticular pattern | ground-glass change | haziness""",
    "pleural effusion": """pleural effusion | effusion | pleural effusions | pleural fluid | hemothorax | hydrothorax
        | loculated fluid | pleural collection | fluid in the minor fissure | empyema | layering effusion""",
    "pleural abnormality": """pleural thickening | pleural scarring | pleural plaques | pleural calcification | apical
        capping | biapical pleural scar | fibrothorax | thickening of the minor fissure | fissural thickening |
        pleuro-parenchymal scarring | pleural abnormality""",
    "pneumonia": """pneumonia | bronchopneumonia | infection | infectious process | pneumonitis | aspiration pneumonia
        | pneumonic process""",
    "pneumothorax": "pneumothorax | pneumothoraces | apical pneumothorax | tension pneumothorax | PTX",
    "support devices": """endotracheal tube | ET tube | NG tube | enteric tube | feeding tube | Dobbhoff | chest tube
        | pigtail catheter | PICC | PICC line | central venous catheter | central line | internal jugular line |
        subclavian line | Swan-Ganz catheter | Port-A-Cath | port-a-cath | Mediport | pacemaker | pacer leads | ICD
        leads | AICD | defibrillator | intra-aortic balloon pump | tracheostomy tube | drain | ETT | IABP | LVAD |
        ECMO cannula | dialysis catheter | prosthetic valve | nerve stimulator""",
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


#: Sentences about one finding, {} stands for it.
NEGATIVE = """No {}. | There is no {}. | There is no evidence of {}. | No definite {}. | No focal {} is seen. |
    Without {}. | Negative for {}. | Lungs are free of {}. | Lungs are clear of {}. | Absence of {}. | {} is absent. |
    {} is not seen. | {} is not identified. | The {} is not visualized. | No {} or other abnormality. | No acute {}. |
    No large {}. | There is no radiographic evidence of {}. | No evidence for {}. | Nor is there {}. | No convincing
    {}. | {} has resolved. | {} has now resolved. | Interval resolution of {}. | Resolved {}. | {} has cleared. |
    Clearing of {}. | {} is no longer seen. | There is no longer {}. | {} is unlikely. | Scarring rather than {}. | {}
    has been excluded. | {}: none. | Lack of {}. | Neither {} nor scar. | The patient denies {}. | {} is not evident.
    | Possibly scarring rather than {}. | Previously seen {} is not seen."""
UNCERTAIN = """Possible {}. | Possibly {}. | Probable {}. | Probably {}. | Questionable {}. | Question of {}. |
    Suspected {}. | This may represent {}. | This could represent {}. | Findings may reflect {}. | This could be {}. |
    It might be {}. | Concern for {}. | Findings concerning for {}. | Suspicious for {}. | Worrisome for {}. | Cannot
    exclude {}. | {} cannot be excluded. | {} is not excluded. | {} is possible. | {} is suspected. | {} versus
    artifact. | {}? | Artifact vs. {}. | Difficult to exclude {}. | Could not rule out {}. | Possibility of {}. |
    Likely {}. | {} is likely. | Presumed {}. | Perhaps {}. | Potential {}. | Findings suggest {}. | In the
    appropriate clinical setting, this is {}. | Correlate clinically for {}. | Favored to represent {}. | {}, if any,
    is small. | {} is in the differential. | Bone could obscure {}. | Equivocal {}."""
POSITIVE = """There is {}. | {} is unchanged. | No change in {}. | No significant interval change in {}. | No interval
    change in {}. | {} has not changed. | {} is not significantly changed. | Without change in the {}. | No increase
    in {}. | No improvement in {}. | {} has not improved. | {} is new. | Stable {}. | Improved {}. | Consistent with
    {}. | Compatible with {}. | {} persists. | {} is not only present but larger. | No worsening of {}. | {} has
    nearly resolved. | {} has not resolved. | Incomplete clearing of {}. | {} is partially cleared. | Near complete
    resolution of {}. | Follow up to document resolution of {}. | {} is not seen on the lateral view."""
#: Nothing is said of the finding.
SILENT = """No new {}. | No evidence of new {}. | History of {}. | Please evaluate for {}. | Assess for {}. | To
    exclude {}. | If there is clinical concern for {}, repeat. | Indication: {}. | Evaluation for {} is limited. | R/o
    {}."""
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
