"""Conversion of any supported corpus to checked records and images.

    reader        files of a format -> one frame of studies (`records.STUDY_SCHEMA`), one row per
    examination records       studies -> records: joins and cleans targets, sets contexts and
    previous reports, applies limits images        inspects every image that a record names, once
    audit         counts over the finished tables; `build_corpus` runs all the steps and writes the
    files

A reader only handles its own format; the later steps are shared and work on frames in memory. Every
unused row is recorded in one list (`account.Account`), which is written to `problems.csv`: file,
row, id, field, reason.
"""
