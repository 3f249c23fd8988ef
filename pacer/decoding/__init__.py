"""Reports from a trained model. Read the modules in this order:

- :mod:`~pacer.decoding.run` decodes the records of a split into files of predictions.
- :mod:`~pacer.decoding.generate` turns each record into a prefix, and the tokens that continue it
  into a text.
- :mod:`~pacer.decoding.search` asks an engine for the report that agrees with its commitment.
- :mod:`~pacer.decoding.beam` is the engine: it searches the best texts of many prefixes at once.
- :mod:`~pacer.decoding.hypotheses` takes a step of the search; :mod:`~pacer.decoding.list_bias` may
  change its scores, and :mod:`~pacer.decoding.tree` holds its keys and values.
- :mod:`~pacer.decoding.extract` splits a text into commitment and report, and
  :mod:`~pacer.decoding.agreement`, alone in this package, reads reports by rules.
"""
