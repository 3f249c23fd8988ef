"""The commitment targets of a corpus, one package per step: sample, client, answers, targets."""
