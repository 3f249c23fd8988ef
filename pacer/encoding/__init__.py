"""How the stage `features` fills a feature store: recipes and keys, plan, shards.

Uses features and what lies below it.
"""
