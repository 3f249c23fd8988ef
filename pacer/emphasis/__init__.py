"""The report tokens that L_TLW counts: the released marks, or marks computed by LLM-RG4's
recipe."""
