"""Conversion of any supported corpus to checked records and images.

- A reader converts the files of one format to a frame with one row per examination
  (`records.STUDY_SCHEMA`), and gives a reason for each row that it excludes.
- `records` converts examinations to records: it joins and cleans targets, sets contexts and
  previous reports, and applies limits.
- `images` inspects every image that a record names, once.
- `audit` counts over the finished tables; `build_corpus` runs all the steps and writes the files.

A reader only handles its own format; the later steps are shared and work on frames in memory. The
rows that any step excludes are written to `problems.csv` (`account.Account`): file, row, id,
field, reason.
"""
