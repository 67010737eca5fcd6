"""Floor 0: events as values, and their bytes.

Pure: no file, clock, random number or environment is touched here. Bytes come in and immutable
events go out; whatever can't be an event comes out as a value that says where and why.
"""
