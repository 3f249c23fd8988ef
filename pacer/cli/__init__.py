"""The command ``pacer``: one file per group of commands. No stage depends on this package."""

from pacer.cli.command import app, main

__all__ = ["app", "main"]
