from tests.support.external import *
