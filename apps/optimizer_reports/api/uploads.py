"""Uploaded sources go from the request to their folder, piece by piece, counted and hashed on the way."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from io import BytesIO
from typing import Any, BinaryIO

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, StopFutureHandlers

from apps.optimizer_reports.folders import folder_name, kept_or_refused, source_file, trace_folder
from apps.optimizer_reports.services import ReceivedFile
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.sizes import sized

FIELD = "file"


class ReceivedUpload(UploadedFile):
    """What the form's field holds: the file itself lies in its folder."""

    def __init__(self, received: ReceivedFile) -> None:
        super().__init__(BytesIO(), name=received.file_name or "trace", size=received.bytes)
        self.received = received


class TraceUploadHandler(FileUploadHandler):
    """Takes the field `file`, and refuses any other file. Whoever uses it calls `keep` or `discard` then.

    Raises TOO_LARGE beyond KVCM_TRACE_UPLOAD_MB, IO_ERROR where the disk takes no more.
    """

    chunk_size = 1 << 20

    def __init__(self, request: Any = None) -> None:
        super().__init__(request)
        self._folder = ""
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self._bytes = 0

    def new_file(self, field_name: str, file_name: str, *args: Any, **kwargs: Any) -> None:
        super().new_file(field_name, file_name, *args, **kwargs)
        if field_name != FIELD or self._folder:
            raise DomainError(
                Code.INVALID_ARGUMENT, f"one file is expected, named {FIELD}", field=field_name[:64]
            )
        self._folder = folder_name()
        with kept_or_refused():
            trace_folder(self._folder).mkdir(parents=True)
            self._file = source_file(self._folder).open("xb")
        raise StopFutureHandlers

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self._bytes += len(raw_data)
        limit = settings.KVCM_TRACE_UPLOAD_BYTES
        if self._bytes > limit:
            raise DomainError(
                Code.TOO_LARGE, f"a trace may have {sized(limit)} (KVCM_TRACE_UPLOAD_MB)", field=FIELD
            )
        self._digest.update(raw_data)
        if self._file is not None:
            with kept_or_refused():
                self._file.write(raw_data)

    def file_complete(self, file_size: int) -> ReceivedUpload:
        if self._file is not None:
            with kept_or_refused():
                self._file.close()
        name = self.file_name or ""
        return ReceivedUpload(ReceivedFile(self._folder, name, self._bytes, self._digest.hexdigest()))

    def keep(self) -> None:
        """The file belongs to a trace now."""
        self._folder = ""

    def discard(self) -> None:
        """Remove what came, unless it was kept."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        if self._folder:
            shutil.rmtree(trace_folder(self._folder), ignore_errors=True)
            self._folder = ""
