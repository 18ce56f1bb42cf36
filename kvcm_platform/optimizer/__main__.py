"""`python -m kvcm_platform.optimizer {ingest,curve,simulate,compare,roi,report,anonymize,generate}`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
