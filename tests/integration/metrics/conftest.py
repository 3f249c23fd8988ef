from tests.support.metrics import *
