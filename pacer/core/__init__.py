"""What every package uses: errors, atomic files and manifests, contexts, progress."""
