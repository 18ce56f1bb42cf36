"""`python -m kvcm_platform.client {replay,demo}`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
