"""The fixed vocabulary of 13 clinical findings (paper, appendix "Preserved Commitment-Labeling
Prompt")."""

#: In the order in which commitments list them.
FINDINGS: tuple[str, ...] = (
    "atelectasis",
    "cardiomegaly",
    "consolidation",
    "edema",
    "enlarged mediastinum",
    "fracture",
    "lung lesion",
    "lung opacity",
    "pleural effusion",
    "pleural abnormality",
    "pneumonia",
    "pneumothorax",
    "support devices",
)
