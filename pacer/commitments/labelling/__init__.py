"""The commitment targets of a corpus, a room for each step: sample, client, answers, targets."""
