from tests.support.reporting import *
