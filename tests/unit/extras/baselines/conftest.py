from tests.support.baselines import *
from tests.support.models import *
