"""Opening an input: files of strangers, so only what cannot lead anywhere else, and within limits."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer

from ingest.animations import HEAD_BYTES, WebpStream, is_animated_webp, webp_size
from runtime.settings import InputSettings
from schemas.errors import InputError

OPEN_SECONDS = 30.0
READ_SECONDS = 30.0
"""Time limits for inputs behind a network."""

DEMUXERS = (
    "mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi", "mpegts", "mpeg", "mpegvideo", "flv",
    "asf", "ogg", "mxf", "nut", "ivf", "obu", "h264", "hevc", "vvc", "av1", "m4v", "h263", "vc1", "dirac",
    "mjpeg", "mjpeg_2000", "dv", "rm", "wtv", "gxf", "yuv4mpegpipe", "gif", "apng", "image2", "jpeg_pipe",
    "png_pipe", "webp_pipe", "bmp_pipe", "tiff_pipe", "j2k_pipe", "jpegxl_pipe", "jpegxl_anim", "ppm_pipe",
    "pgm_pipe", "pam_pipe", "pbm_pipe", "dpx_pipe", "exr_pipe", "qoi_pipe", "sgi_pipe", "sunrast_pipe",
)  # fmt: skip
"""FFmpeg's demuxers that read one file and nothing else. Not here: playlists and manifests (hls, dash,
concat, imf, sdp), which name other files and addresses; drawings of text (tty, ansi); devices."""
_PLAYLISTS = {
    b"#EXTM3U": "HLS playlist",
    b"ffconcat": "concat script",
    b"<MPD": "DASH manifest",
    b"v=0": "SDP description",
    b"<AssetMap": "IMF asset map",
}
_REMOTE = "http,https,tcp,tls"


@contextmanager
def open_input(
    path: str, limits: InputSettings | None = None, hwaccel: HWAccel | None = None
) -> Iterator[InputContainer]:
    """Open an input for reading. Raises InputError, in one line, for whatever is no video or passes a limit.

    Names are taken literally: neither protocols (`concat:`, `data:`) nor patterns (`%03d`) mean anything.
    """
    limits = limits or InputSettings()
    remote = "://" in path and not path.startswith("file:")
    if remote and not limits.network:
        raise InputError(f"input {path}: is behind a network, which the setting input.network does not allow")
    local = local_name(path)
    if not remote:
        _check_file(path, local, limits)
    options = {
        "format_whitelist": ",".join(DEMUXERS),
        "protocol_whitelist": _REMOTE if remote else "file",
        "max_streams": str(limits.streams),
        "pattern_type": "none",
        "max_pixels": str(limits.pixels),
    }
    with ExitStack() as stack:
        try:
            source: str | WebpStream = path if remote else f"file:{local}"
            if not remote and is_animated_webp(start := read_start(path)):
                check_size(path, *webp_size(start), limits)
                source = stack.enter_context(closing(WebpStream(local)))
            container = av.open(
                source,
                "r",
                options=options,
                metadata_errors="replace",
                timeout=(OPEN_SECONDS, READ_SECONDS),
                hwaccel=hwaccel,
            )
        except (av.error.FFmpegError, ValueError, OSError, SyntaxError) as error:
            raise InputError(f"input {path}: {_why(local, error, limits)}") from error
        stack.enter_context(container)
        _check_streams(path, container, limits)
        yield container


def read_start(path: str) -> bytes:
    """The first bytes of a local file; none of anything else."""
    try:
        with open(local_name(path), "rb") as file:
            return file.read(HEAD_BYTES)
    except (OSError, ValueError):
        return b""


def local_name(path: str) -> str:
    """A path as the system knows it."""
    return path.removeprefix("file://").removeprefix("file:")


def _check_file(path: str, local: str, limits: InputSettings) -> None:
    try:
        found = os.stat(local)
    except (OSError, ValueError) as error:
        raise InputError(f"input {path}: {reason(error)}") from error
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"input {path}: is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"input {path}: is no regular file; pipes and devices cannot be read twice")
    if found.st_size == 0:
        raise InputError(f"input {path}: is empty")
    if found.st_size > limits.bytes:
        raise InputError(f"input {path}: has {found.st_size} bytes; input.bytes allows {limits.bytes}")


def _check_streams(path: str, container: InputContainer, limits: InputSettings) -> None:
    if len(container.streams) > limits.streams:
        raise InputError(
            f"input {path}: has {len(container.streams)} streams; input.streams allows {limits.streams}"
        )
    for stream in container.streams.video:
        context: av.VideoCodecContext | None = stream.codec_context
        if context is not None:
            context.options = {"max_pixels": str(limits.pixels)}


def check_size(path: str, width: int, height: int, limits: InputSettings) -> None:
    """Raises InputError for a picture that is too large."""
    if width > limits.width or height > limits.height or width * height > limits.pixels:
        raise InputError(
            f"input {path}: its picture is {width}x{height}; input.width, input.height and input.pixels "
            f"allow {limits.width}, {limits.height} and {limits.pixels}"
        )


def _why(local: str, error: Exception, limits: InputSettings) -> str:
    if getattr(error, "errno", None) == errno.ENOMEM:  # what FFmpeg says at its max_streams
        return f"has more streams than input.streams allows ({limits.streams})"
    head = read_start(local)[:4096].lstrip(b"\xef\xbb\xbf \r\n\t")
    for mark, name in _PLAYLISTS.items():
        if head.startswith(mark) or (mark.startswith(b"<") and mark in head):
            return f"is a {name}, which names other files; such are not followed"
    return reason(error)


def reason(error: Exception) -> str:
    """The message of an error in one line."""
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(text.split()) or type(error).__name__
