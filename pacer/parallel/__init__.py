"""Several processes, their threads, and prefetching.

Uses no other room.
"""
