"""What an agent knows from elsewhere: instruction files, notes of earlier sessions, and finding them.

Everything here reads plain files that people write too, so no file is trusted: each is opened without
following links or waiting, read up to a bound, and made inert before it stands in a prompt.
"""
