from tests.support.metrics import *
from tests.support.models import *
