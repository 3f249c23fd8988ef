from tests.support.cli import *
