from tests.support.external import *
from tests.support.models import *
