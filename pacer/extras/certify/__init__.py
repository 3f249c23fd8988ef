"""The certificate of a metric: texts with planted faults and with other words for the same facts
(:mod:`~pacer.extras.certify.cards`), and what a metric makes of them
(:mod:`~pacer.extras.certify.verdicts`)."""
