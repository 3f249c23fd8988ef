"""Shared by all packages: errors, atomic files, contexts, processes and devices, progress."""
