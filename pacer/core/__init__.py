"""What every room uses: errors, atomic files and manifests, contexts, progress.

Uses no other room.
"""
