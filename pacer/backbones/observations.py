"""CheXbert's labels: 14 observations, each in one of four classes."""

from pacer.core.findings import FINDINGS

#: The checkpoint's file: ``{"model_state_dict": {"module.bert...": ..., "module.linear_heads.i...":
#: ...}}``.
CHECKPOINT = "chexbert.pth"

#: The labelled observations, in the order of the heads.
OBSERVATIONS: tuple[str, ...] = (
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
    "No Finding",
)

#: The observation for each of the 13 findings of the commitments.
OBSERVATION_OF: dict[str, str] = {finding: finding.title() for finding in FINDINGS} | {
    "enlarged mediastinum": "Enlarged Cardiomediastinum",
    "pleural abnormality": "Pleural Other",
}

#: The classes; "No Finding" has only the first two.
BLANK, POSITIVE, NEGATIVE, UNCERTAIN = range(4)
