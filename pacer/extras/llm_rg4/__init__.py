"""LLM-RG4's released weights as a checkpoint."""
