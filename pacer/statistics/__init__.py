"""What users do with scored systems: score and compare, with intervals by patient (``calls``)."""
