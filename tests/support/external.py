"""The labeller and the METEOR of the tests of metrics."""

from tests.support.metrics import checkpoint_state, chexbert_directory, meteor, one_meteor, one_thread, words

__all__ = ["checkpoint_state", "chexbert_directory", "meteor", "one_meteor", "one_thread", "words"]
