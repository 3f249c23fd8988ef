"""The report tokens that L_TLW counts, from the released marks or computed by LLM-RG4's recipe."""
