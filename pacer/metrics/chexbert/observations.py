"""What CheXbert labels: 14 observations, each in one of four classes."""

from __future__ import annotations

#: The checkpoint's file: ``{"model_state_dict": {"module.bert...": ..., "module.linear_heads.i...": ...}}``.
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

#: The observation of each of the 13 findings of the commitments.
OBSERVATION_OF: dict[str, str] = {
    "atelectasis": "Atelectasis",
    "cardiomegaly": "Cardiomegaly",
    "consolidation": "Consolidation",
    "edema": "Edema",
    "enlarged mediastinum": "Enlarged Cardiomediastinum",
    "fracture": "Fracture",
    "lung lesion": "Lung Lesion",
    "lung opacity": "Lung Opacity",
    "pleural effusion": "Pleural Effusion",
    "pleural abnormality": "Pleural Other",
    "pneumonia": "Pneumonia",
    "pneumothorax": "Pneumothorax",
    "support devices": "Support Devices",
}

#: The classes; "No Finding" knows the first two alone.
BLANK, POSITIVE, NEGATIVE, UNCERTAIN = range(4)
