"""Which report tokens L_TLW counts: the released marks, or marks by LLM-RG4's recipe."""
