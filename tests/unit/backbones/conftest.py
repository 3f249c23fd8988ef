from tests.support.models import *
from tests.support.training import *
