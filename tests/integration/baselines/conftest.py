from tests.support.baselines import *
