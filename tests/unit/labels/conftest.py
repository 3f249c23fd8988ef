from tests.support.labelling import *
