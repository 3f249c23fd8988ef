from tests.support.serving import *
