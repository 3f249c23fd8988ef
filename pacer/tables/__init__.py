"""Files and objects that people hand in: tables, reports, columns and ids, read strictly."""
