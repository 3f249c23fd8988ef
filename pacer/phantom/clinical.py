"""Indications and histories, as the referring physician writes them."""

from __future__ import annotations

import numpy as np

#: By trait of the patient; "" for reasons that anybody may have.
INDICATIONS = {
    "heart failure": ("Shortness of breath", "Dyspnea on exertion", "Evaluate for fluid overload"),
    "infection": ("Fever and cough", "Productive cough", "Evaluate for infection"),
    "intensive care": ("Intubated patient", "Line placement", "Hypoxia"),
    "trauma": ("Fall", "Motor vehicle accident", "Chest wall pain"),
    "tumour": ("Weight loss", "Hemoptysis", "Staging"),
    "asbestos": ("Chronic cough", "Occupational exposure", "Chest discomfort"),
    "": ("Chest pain", "Preoperative evaluation", "Cough", "Weakness"),
}
HISTORIES = {
    "heart failure": ("congestive heart failure", "coronary artery disease"),
    "infection": ("immunosuppression", "asthma"),
    "intensive care": ("respiratory failure", "sepsis"),
    "trauma": ("osteoporosis", "recent trauma"),
    "tumour": ("lung cancer", "smoking"),
    "asbestos": ("asbestos exposure", "smoking"),
    "": ("hypertension", "diabetes", "no relevant history"),
}


def clinical_text(
    rng: np.random.Generator, traits: list[str], phrases: dict[str, tuple[str, ...]], share: float
) -> str | None:
    """An indication or history that fits a trait of the patient, or None.

    Args:
        traits: the patient's.
        phrases: INDICATIONS or HISTORIES.
        share: how often there is one.
    """
    known, general, trait, choice = rng.random(4)
    if known > share:
        return None
    source = "" if not traits or general < 0.4 else traits[int(trait * len(traits))]
    return phrases[source][int(choice * len(phrases[source]))]
