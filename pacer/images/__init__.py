"""Radiographs: DICOM, grey values, and any file to an 8-bit image."""
