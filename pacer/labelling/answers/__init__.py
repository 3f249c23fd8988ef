"""What the labelling model answered, read into commitments.

Uses anchors.
"""
