from tests.support.repository import *
