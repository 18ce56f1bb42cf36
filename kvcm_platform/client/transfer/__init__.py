"""Moving block bytes. The metadata service never does: engines read and write URIs themselves."""

from .files import FileTransfer, TransferError
from .pattern import BlockPattern, wrong_bytes

__all__ = ["BlockPattern", "FileTransfer", "TransferError", "wrong_bytes"]
