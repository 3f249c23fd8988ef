"""From any corpus to checked records and images.

    reader        files of a format -> one frame of studies (`studies.STUDY_SCHEMA`), a row per examination
    records       studies -> records: targets joined and cleaned, contexts, previous reports, limits, sound rows
    images        every image that a record names is looked at once
    audit         counts of the finished tables; `build_corpus` runs all of it and writes the files

A reader knows its format and nothing else; what comes after it is written once, over frames, in memory. Every row that
is not used is a row of one list (`account.Account`), which becomes `problems.csv`: file, row, id, field, reason.
"""
