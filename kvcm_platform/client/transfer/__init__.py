"""Moving block bytes. The metadata service never does: engines read and write URIs themselves."""

from .files import FileTransfer, TransferError, block_checksum
from .pattern import BlockPattern, wrong_bytes

__all__ = ["BlockPattern", "FileTransfer", "TransferError", "block_checksum", "wrong_bytes"]
