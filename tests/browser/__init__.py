"""Every notebook of the course, opened and used in a real browser.

A package, so that its module names never clash with those of other tests.
"""
