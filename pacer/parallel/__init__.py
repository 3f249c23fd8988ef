"""Several processes, their threads, and prefetching.

Uses core.
"""
