"""Finds secrets in texts and takes them out: of archives, traces, reports and, if asked, transcripts.

The rule kept here: what comes out is as valid as what went in, and nothing is asked of the network.
"""
