from tests.support.training import *
