"""Scores of predictions against references, as one way: a run or two files are paired
(:mod:`~pacer.metrics.predictions`, :mod:`~pacer.metrics.pair`); pairs become a table, with columns
and a ledger of findings (:mod:`~pacer.metrics.table`, :mod:`~pacer.metrics.ledger`); the registry
has the scores of each context as sums over cases (:mod:`~pacer.metrics.scores`); and a result reads
and writes itself (:mod:`~pacer.metrics.result`). Intervals and tests of such sums are in
:mod:`pacer.statistics`."""
