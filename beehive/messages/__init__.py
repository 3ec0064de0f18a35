"""The vocabulary: what modules say to each other, one file per topic; data only.

The docstring of each message says who says it, when, and what to do if it is lost.
"""
