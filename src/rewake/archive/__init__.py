"""Sessions as a whole: exported, imported, deleted and restored, counted; and blobs nobody names.

The rule kept here: nothing goes without having been announced, and whatever stops one of these, each
session is whole, in the one place or in the other.
"""
