from tests.support.corpus import *
from tests.support.models import *
