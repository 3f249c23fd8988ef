"""Clinical commitments: which findings a report affirms, denies or leaves uncertain, and how that is obtained."""
