"""What every package uses: errors, atomic files, contexts, processes and devices, progress."""
