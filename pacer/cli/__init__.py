"""The command ``pacer``: a file for each room's commands, apart from the rooms, which are units of rebuilding.

Uses every room.
"""

from pacer.cli.command import app, main

__all__ = ["app", "main"]
