from tests.support.models import *
