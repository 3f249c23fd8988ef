"""Several processes, their threads, and things made ahead of their use.

Uses no other room.
"""
