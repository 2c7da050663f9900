"""What every package stands on: errors, progress, whole-file writes, intervals and the results table.

It lives in ``extractors`` because imports point one way and ``extractors`` is the bottom; nothing here knows a model.
"""
