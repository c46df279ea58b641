"""The error tree of facestream.

    FacestreamError
    ├── UsageError               the caller asked for something that cannot be done
    │   └── SettingsError        a setting is missing, malformed or contradicts another
    ├── InputError               the media given cannot be used
    │   └── NoFaceError          a source picture shows no face
    ├── OutputError              the result cannot be written where it was asked for
    ├── RecordError              bytes from a topic are not a record we can use
    │   ├── MalformedRecordError    truncated, not msgpack, or fields that contradict each other
    │   ├── UnknownVersionError     a record of a version this build does not know
    │   └── RecordTooLargeError     a record would pass the limit of its topic
    ├── ModelError               a model is missing from the store or has the wrong hash
    ├── EngineError              an engine failed on frames it was given
    │   └── ContentRefusedError  an engine's content check refuses what it is given
    ├── BrokerError              Kafka could not be started, reached, or refused us
    │   ├── BrokerStartError     the embedded broker did not come up
    │   ├── ArtefactError        the broker's jars could not be fetched
    │   └── AssignmentError      frames and swaps partitions do not match
    ├── StoreError               the object store refused a read or a write
    ├── FramesLostError          frames that a stream still needs are gone from Kafka
    ├── JobFailedError           a job ended in the state failed
    └── EncoderError             an encoder cannot be opened or refused a frame

`retryable` says whether the same call may succeed later without anyone changing anything;
`exit_code` is what the command line ends with.
"""

from __future__ import annotations

from typing import ClassVar


class FacestreamError(Exception):
    """Root of all errors raised on purpose. Never raised itself."""

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1


class UsageError(FacestreamError):
    """Raised before any work starts when options contradict each other or name nothing that exists.
    A retry does not help."""

    exit_code = 2


class SettingsError(UsageError):
    """Raised while settings are read, naming the setting. A retry does not help."""


class InputError(FacestreamError):
    """Raised when an input is missing, empty, not a video, or breaks a limit. A retry does not help."""


class NoFaceError(InputError):
    """Raised by `prepare` when a source picture shows no face. A retry does not help."""

    exit_code = 3


class OutputError(FacestreamError):
    """Raised when the output folder does not exist or cannot be written. A retry does not help."""


class RecordError(FacestreamError):
    """Base of what is wrong with a record on a topic. The record is skipped or sent to `dead`."""


class MalformedRecordError(RecordError):
    """Raised by `schemas.framing` and the record models. A retry reads the same bytes."""


class UnknownVersionError(RecordError):
    """Raised when a record's `v` is newer than this build knows. Helps: upgrade this reader."""


class RecordTooLargeError(RecordError):
    """Raised before work starts when one frame would pass `max.message.bytes`. Names both sizes."""


class ModelError(FacestreamError):
    """Raised when a model file is missing or its SHA-256 differs. Helps: `facestream models pull`."""


class EngineError(FacestreamError):
    """Raised by an engine on frames it was given. Tried again by the worker before it gives up."""

    retryable = True


class ContentRefusedError(EngineError):
    """Raised when an engine's content check refuses a frame. The job fails, whatever its policy. A retry does
    not help."""

    retryable = False


class BrokerError(FacestreamError):
    """Raised when Kafka refuses us or stays unreachable past its time limit."""

    retryable = True


class BrokerStartError(BrokerError):
    """Raised when the embedded broker ends or does not answer while starting; carries its last words."""


class ArtefactError(BrokerError):
    """Raised when an artefact of the embedded broker cannot be fetched; names it and the mirror setting."""


class AssignmentError(BrokerError):
    """Raised by the assembler when its partitions of frames and swaps differ. Restarting rejoins."""


class StoreError(FacestreamError):
    """Raised when the object store refuses a read or a write; names the object."""

    retryable = True


class FramesLostError(FacestreamError):
    """Raised when frames that a stream still needs are no longer in Kafka: they expired, or were deleted.
    Helps: releasing the stream again, which decodes it once more."""

    retryable = True


class JobFailedError(FacestreamError):
    """Raised by a caller that waited for a job which failed; carries the job's reason."""


class EncoderError(FacestreamError):
    """Raised when an encoder cannot be opened with the job's options. A retry does not help."""
