"""Fixtures of all folders here: each is made once a worker."""

from tests.support.metrics import *
from tests.support.models import *
from tests.support.serving import *
