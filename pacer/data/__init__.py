"""From raw files to records: schema, readers, cleaning, images, audit."""
