"""The commitment target of every record, by its labelling answer or by the rules.

Uses `labelling.answers`, `labelling.sample`, rules and what lies below them.
"""
