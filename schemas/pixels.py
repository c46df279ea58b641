"""Planar pixel formats that frames travel in: geometry only, no pixels."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.errors import InputError


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """A planar format under its FFmpeg name.

    `chroma_x`, `chroma_y`: log2 of the chroma subsampling; `planes`: 1 for gray, 3 for YUV, 4 for YUV with
    alpha, which is the last plane, of full size and full scale, and never premultiplied into the others;
    `depth`: bits used of each sample; samples above 8 bits are 16-bit little endian, low bits used.
    """

    name: str
    planes: int
    chroma_x: int
    chroma_y: int
    depth: int

    @property
    def alpha(self) -> bool:
        """Whether the last plane says how opaque each pixel is. Engines neither see nor change it."""
        return self.planes == 4

    @property
    def colours(self) -> int:
        """Planes that show something: all but alpha. Patches hold these."""
        return 3 if self.alpha else self.planes

    @property
    def sample_bytes(self) -> int:
        return 1 if self.depth == 8 else 2

    def plane_size(self, plane: int, width: int, height: int) -> tuple[int, int]:
        """(width, height) of a plane in samples; chroma of odd sizes is rounded up, as FFmpeg does."""
        if plane in (0, 3):
            return width, height
        return -(-width >> self.chroma_x), -(-height >> self.chroma_y)

    def plane_bytes(self, plane: int, width: int, height: int) -> int:
        w, h = self.plane_size(plane, width, height)
        return w * h * self.sample_bytes

    def frame_bytes(self, width: int, height: int) -> int:
        """Bytes of one frame without row padding."""
        return sum(self.plane_bytes(p, width, height) for p in range(self.planes))

    def patch_bytes(self, width: int, height: int) -> int:
        """Bytes of a rectangle of the colour planes."""
        return sum(self.plane_bytes(p, width, height) for p in range(self.colours))


def _family() -> dict[str, PixelFormat]:
    table: dict[str, PixelFormat] = {}
    shifts = {
        "420": (1, 1),
        "422": (1, 0),
        "444": (0, 0),
        "440": (0, 1),
        "411": (2, 0),
        "410": (2, 2),
    }
    for tag, (x, y) in shifts.items():
        name = f"yuv{tag}p"
        table[name] = PixelFormat(name, 3, x, y, 8)
    for tag in ("420", "422", "444"):
        for depth in (9, 10, 12, 14, 16):
            x, y = shifts[tag]
            name = f"yuv{tag}p{depth}le"
            table[name] = PixelFormat(name, 3, x, y, depth)
    for tag, depths in (("420", (9, 10, 16)), ("422", (9, 10, 12, 16)), ("444", (9, 10, 12, 16))):
        x, y = shifts[tag]
        for name, depth in [(f"yuva{tag}p", 8), *((f"yuva{tag}p{d}le", d) for d in depths)]:
            table[name] = PixelFormat(name, 4, x, y, depth)
    table["gray"] = PixelFormat("gray", 1, 0, 0, 8)
    for depth in (9, 10, 12, 14, 16):
        name = f"gray{depth}le"
        table[name] = PixelFormat(name, 1, 0, 0, depth)
    return table


PIXEL_FORMATS: dict[str, PixelFormat] = _family()


def pixel_format(name: str) -> PixelFormat:
    """Look a format up. Raises InputError for one that does not travel (ingest converts it first)."""
    try:
        return PIXEL_FORMATS[name]
    except KeyError:
        raise InputError(f"pixel format {name!r} is not one that frames travel in") from None


def holding(chroma_x: int, chroma_y: int, depth: int, alpha: bool = False) -> str:
    """The smallest YUV format that holds at least this much chroma (log2 of its subsampling) and depth.

    Raises InputError where there is none.
    """
    able = [
        form
        for form in PIXEL_FORMATS.values()
        if form.planes == (4 if alpha else 3)
        and form.depth >= depth
        and form.chroma_x <= chroma_x
        and form.chroma_y <= chroma_y
    ]
    if not able:
        raise InputError(f"samples of {depth} bits; 16 is the most that is supported")
    return min(able, key=lambda form: (form.depth, form.frame_bytes(64, 64))).name


def opaque(name: str) -> str:
    """The format without its alpha plane; itself where it has none."""
    return name.replace("yuva", "yuv", 1)
