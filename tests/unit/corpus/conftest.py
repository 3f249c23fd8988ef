from tests.support.corpus import *
from tests.support.dicom import *
