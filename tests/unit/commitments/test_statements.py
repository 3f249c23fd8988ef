"""Sentences of ward and intensive care reports, cause by cause: what a cue speaks of, and where it ends."""

from __future__ import annotations

import pytest

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.cleaning import clean_report
from tests.unit.commitments.test_rules import anchor_of

#: Names, the side of "cannot be excluded", and where statements end.
STATEMENTS = {
    "hilar and mediastinal": {
        "Normal hilar and mediastinal silhouettes.": "- enlarged mediastinum",
        "Hilar and mediastinal borders are unremarkable.": "- enlarged mediastinum",
        "Normal mediastinum and heart.": "- cardiomegaly, enlarged mediastinum",
        "Normal mediastinal contours and heart size.": "- cardiomegaly, enlarged mediastinum",
        "Normal mediastinum and heart is large.": "+ cardiomegaly - enlarged mediastinum",
    },
    "pleural and pericardial": {
        "There is no pleural or pericardial effusion.": "- pleural effusion",
        "Large pleural and pericardial effusions.": "+ pleural effusion",
        "No pericardial effusion.": "",
    },
    "top-normal": {"Heart size top-normal.": "- cardiomegaly", "Top-normal heart size.": "- cardiomegaly"},
    "failure": {
        "No evidence of failure.": "- edema",
        "There is frank failure.": "+ edema",
        "Signs of renal failure.": "",
        "Failure of the tube to advance.": "+ support devices",
    },
    "excluded, then a denial": {
        "Trace edema cannot be excluded, no pneumothorax.": "? edema - pneumothorax",
        "Infection is not excluded, there is no edema.": "? pneumonia - edema",
    },
    "size and course": {
        "The heart is unchanged and remains mildly enlarged.": "+ cardiomegaly",
        "The heart is unchanged and normal in size.": "- cardiomegaly",
        "Chronic interstitial lung disease.": "+ lung opacity",
    },
    "devices": {
        "A right jugular port projects over the atrium.": "+ support devices",
        "The hemodialysis line is again seen.": "+ support devices",
        "Left IJ vascular sheath.": "+ support devices",
        "The carotid sheath is normal.": "",
    },
    "the side of likely": {
        "The basal density is likely pneumonia.": "+ lung opacity ? pneumonia",
        "The left opacity is likely due to edema or infection.": "+ lung opacity ? edema, pneumonia",
        "The infiltrate was likely in part due to effusion.": "+ lung opacity ? pleural effusion",
        "Retrocardiac density which is likely atelectasis.": "+ lung opacity ? atelectasis",
        "Airspace disease is suspected aspiration pneumonia.": "+ lung opacity ? pneumonia",
        "A small effusion is likely, no pneumothorax.": "? pleural effusion - pneumothorax",
        "A small effusion is likely present and edema has improved.": "? pleural effusion + edema",
        "Pneumonia is suspected in the lingula.": "? pneumonia",
        "Aspiration pneumonia is likely the cause.": "? pneumonia",
        "The effusion is likely larger.": "+ pleural effusion",
    },
    "unnamed devices": {
        "Support apparatus is unchanged.": "",
        "Unchanged support devices.": "",
        "All monitoring and support devices are in standard position.": "",
        "The ET tube has been removed. Other lines and tubes are unchanged.": "+ support devices",
        "The NG tube has been removed, otherwise the support apparatus is unchanged.": "+ support devices",
        "No other support devices.": "- support devices",
        "Tubes and lines: stable.": "",
        "No interval change in the position of the support devices.": "",
        "No pneumothorax, stable support lines and tubes.": "- pneumothorax",
        "Support devices including a right PICC are unchanged.": "+ support devices",
        "Support devices are stable; the ET tube is at the carina.": "+ support devices",
        "Support devices have been removed.": "- support devices",
        "No support devices.": "- support devices",
        "New support devices.": "+ support devices",
        "Stable pacemaker.": "+ support devices",
    },
    "a denied list ends": {
        "No edema, left chest tube in place.": "- edema + support devices",
        "No pneumothorax or edema, NG tube below the diaphragm.": "- pneumothorax, edema + support devices",
        "No pneumothorax or chest tube.": "- pneumothorax, support devices",
        "No effusion, new left upper lobe infiltrate.": "- pleural effusion + lung opacity",
        "No effusion or new infiltrate.": "- pleural effusion, lung opacity",
        "Without effusion or other new nodule.": "- pleural effusion, lung lesion",
        "No edema, bilateral effusions are large.": "- edema + pleural effusion",
        "No edema or effusion is again seen.": "- edema, pleural effusion",
        "No evidence of edema, cardiac silhouette is enlarged.": "- edema + cardiomegaly",
        "No edema or pneumonia is seen and the mediastinum is widened.": "- edema, pneumonia + enlarged mediastinum",
        "No evidence that the heart is enlarged.": "- cardiomegaly",
        "No consolidation, effusion, pneumothorax.": "- consolidation, pleural effusion, pneumothorax",
        "No effusion is seen, basal opacity could be atelectasis.": "+ lung opacity - pleural effusion ? atelectasis",
        "No pneumothorax is seen or effusion.": "- pleural effusion, pneumothorax",
        "There is no pneumothorax and increasing right effusion.": "+ pleural effusion - pneumothorax",
        "No pneumothorax, residual left effusion.": "+ pleural effusion - pneumothorax",
        "No pneumothorax, right effusion unchanged.": "+ pleural effusion - pneumothorax",
        "No pneumothorax or effusion unchanged.": "- pleural effusion, pneumothorax",
        "No residual effusion or increasing edema.": "- edema, pleural effusion",
        "No edema, moderate effusion, fracture nor pneumothorax.": "- edema, pleural effusion, fracture, pneumothorax",
        "No edema, increased interstitial markings, or effusion.": "- edema, lung opacity, pleural effusion",
        "No edema, trace effusion, scarring, or pneumothorax.": "- edema, pleural effusion, pneumothorax",
        "No edema or effusion, mild atelectasis or infiltrate at the left base.": "+ atelectasis, lung opacity "
        "- edema, pleural effusion",
        "No effusion, new opacity is likely edema or pneumonia.": "+ lung opacity ? edema, pneumonia "
        "- pleural effusion",
        "No edema, small left effusion or thickened pleura.": "+ pleural effusion, pleural abnormality - edema",
        "No edema, stable effusion or thickened pleura.": "+ pleural effusion, pleural abnormality - edema",
        "No effusion, new opacity from edema or pneumonia.": "+ lung opacity, edema, pneumonia - pleural effusion",
        "No effusion, new opacity could represent edema or pneumonia.": "+ lung opacity ? edema, pneumonia "
        "- pleural effusion",
        "No effusion, small left pneumothorax, not clearly larger or smaller.": "+ pneumothorax - pleural effusion",
    },
    "what has developed": {
        "No pneumothorax has developed.": "- pneumothorax",
        "No pneumothorax or effusion has developed.": "- pneumothorax, pleural effusion",
        "No edema, effusion, or pneumothorax has since appeared.": "- edema, pleural effusion, pneumothorax",
        "No edema, a left effusion has since accumulated.": "+ pleural effusion - edema",
        "No edema, left effusion is now seen.": "+ pleural effusion - edema",
        "No edema, left effusion now seen.": "+ pleural effusion - edema",
        "No edema and a small left effusion.": "+ pleural effusion - edema",
        "No edema or effusion is now seen.": "- pleural effusion, edema",
        "No opacity to suggest a new pneumonia.": "- lung opacity, pneumonia",
    },
    "a hedge ends": {
        "Haziness likely edema, no effusion.": "+ lung opacity ? edema - pleural effusion",
        "Possible edema without pneumothorax.": "? edema - pneumothorax",
        "Possible edema, effusion or pneumonia.": "? edema, pleural effusion, pneumonia",
        "Possible edema, heart size is normal.": "? edema - cardiomegaly",
        "Cannot exclude edema, not pneumonia.": "? edema - pneumonia",
    },
    "parts and places of devices": {
        "The tip of the enteric tube is not visualized.": "+ support devices",
        "The feeding tube tip is not well seen.": "+ support devices",
        "NG tube side port is not identified.": "+ support devices",
        "The PICC cannot be seen and is not visualized beyond the axilla.": "+ support devices",
        "The ET tube is no longer in the right main bronchus.": "+ support devices",
        "The feeding tube is likely in the duodenum.": "+ support devices",
        "The catheter is likely positioned in the azygos vein.": "+ support devices",
        "Possible kink of the catheter.": "+ support devices",
        "No kinking of the pacer lead.": "+ support devices",
        "The feeding tube is not seen.": "- support devices",
        "The chest tube is no longer in place.": "- support devices",
        "Possible chest tube.": "? support devices",
        "History of central line tip infection.": "",
    },
    "hedges": {
        "Mild edema might be present.": "? edema",
        "Mild edema is presumed.": "? edema",
        "Trace edema possibly present.": "? edema",
        "Edema and infection are both possible.": "? edema, pneumonia",
        "Edema appears less likely.": "? edema",
        "Atelectasis, infection less likely.": "+ atelectasis ? pneumonia",
        "Infection is of clinical concern.": "? pneumonia",
        "Edema could have a similar appearance.": "? edema",
        "Aspiration pneumonia might well produce this picture.": "? pneumonia",
        "The effusions are small, if any.": "? pleural effusion",
        "The effusions are small.": "+ pleural effusion",
        "If present, the effusion is small.": "? pleural effusion",
        "If any, there is only trace effusion.": "? pleural effusion",
        "No reason to suspect infection.": "- pneumonia",
        "Reason to suspect infection.": "? pneumonia",
        "It is unlikely that there is an effusion.": "- pleural effusion",
        "Unlikely to represent edema.": "- edema",
    },
    "removed and placed": {
        "Interval removal of the NG tube and placement of a left PICC.": "+ support devices",
        "Removal of the PICC with a right IJ sheath remaining.": "+ support devices",
        "Removal of the NG tube and PICC.": "- support devices",
        "No pneumothorax after left chest tube removal.": "- pneumothorax, support devices",
        "Small pneumothorax after removal.": "+ pneumothorax",
        "No pneumothorax following PICC placement.": "- pneumothorax + support devices",
        "No pneumothorax or edema status post pacemaker insertion.": "- pneumothorax, edema + support devices",
        "No central line related pneumothorax.": "- pneumothorax + support devices",
        "No complication of the left IJ line.": "+ support devices",
    },
    "views and comparisons": {
        "A nodule is seen on the frontal view, not identified on the lateral view.": "+ lung lesion",
        "Left effusion, not well appreciated on prior.": "+ pleural effusion",
        "The effusion is not seen on the frontal or lateral view.": "- pleural effusion",
        "The opacity is not visualized on today's exam.": "- lung opacity",
        "Without a prior study, the age of the fracture is unknown.": "+ fracture",
        "No comparison, large effusion.": "+ pleural effusion",
        "No prior pneumonia.": "- pneumonia",
    },
    "versus and what stands beside": {
        "Small effusions and basal infiltrate versus crowding.": "+ pleural effusion ? lung opacity",
        "Edema or infiltrate versus crowding.": "? edema, lung opacity",
        "Pneumonia and/or atelectasis versus scar.": "? pneumonia, atelectasis",
        "Mass lesion versus infiltrate.": "? lung lesion, lung opacity",
        "Atelectasis and edema, effusion versus thickened pleura.": "+ atelectasis, edema ? pleural effusion, "
        "pleural abnormality",
    },
    "a contrast about one finding": {
        "Pneumonia is unlikely but cannot be excluded.": "? pneumonia",
        "Effusion not seen but is difficult to entirely exclude.": "? pleural effusion",
        "No effusion but pneumothorax cannot be excluded.": "? pneumothorax - pleural effusion",
    },
    "a hedge over what is no finding": {
        "Possible scarring at the left apex with no pneumothorax.": "- pneumothorax",
        "Question mild right atrial enlargement, no edema.": "- edema",
        "There is probably no pneumothorax.": "? pneumothorax",
        "Probably not a pneumothorax.": "? pneumothorax",
        "Likely aspiration given the bibasilar opacities.": "+ lung opacity",
    },
    "what has resolved": {
        "Edema, which was seen on the prior film, has resolved.": "- edema",
        "A nodule which was not seen before.": "+ lung lesion",
        "Near-complete resolution of the effusion.": "+ pleural effusion",
        "No acute process besides trace edema.": "+ edema",
    },
}

REPORTS = {report: expected for cause in STATEMENTS.values() for report, expected in cause.items()}


@pytest.mark.parametrize("cause", STATEMENTS)
def test_statements(cause: str) -> None:
    for report, expected in STATEMENTS[cause].items():
        assert extract_anchor(report) == anchor_of(expected), report
        assert extract_anchor(clean_report(report)) == anchor_of(expected), report
