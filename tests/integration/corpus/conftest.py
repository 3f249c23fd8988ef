from tests.support.corpus import *
