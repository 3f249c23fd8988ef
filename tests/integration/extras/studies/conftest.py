from tests.support.studies import *
