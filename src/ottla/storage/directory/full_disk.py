"""The error codes of a full disk."""

import errno

# No space, quota exceeded, or file too large: the disk itself is not broken.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
