from tests.support.baselines import *
from tests.support.training import *
