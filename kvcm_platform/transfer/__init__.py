"""Moving block bytes. The metadata service never does: engines, and the duty that copies, read and
write URIs themselves.
"""

from .block import BlockTransfer, TransferError, block_checksum
from .files import FileTransfer
from .pattern import BlockPattern, wrong_bytes
from .pool import PoolTransfer
from .transfers import TransferOptions, Transfers

__all__ = [
    "BlockPattern",
    "BlockTransfer",
    "FileTransfer",
    "PoolTransfer",
    "TransferError",
    "TransferOptions",
    "Transfers",
    "block_checksum",
    "wrong_bytes",
]
