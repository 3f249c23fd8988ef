"""``python -m pacer``: the command ``pacer``."""

from pacer.cli import main

if __name__ == "__main__":
    main()
