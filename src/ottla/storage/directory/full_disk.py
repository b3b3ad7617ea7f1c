"""How a disk says that it is full."""

import errno

# The disk is full, or we may not use more of it: nothing is broken.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
