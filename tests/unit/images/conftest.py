from tests.support.dicom import *
