"""The phantom: a generated chest X-ray world with known truth, deterministic in its seed."""
