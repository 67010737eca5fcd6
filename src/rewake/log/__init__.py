"""Floor 2: bytes on disk: appending, scanning, locking, blobs. Only `disk` opens, syncs or renames."""
