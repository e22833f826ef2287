"""LZ4's block format by its specification, byte by byte."""


def decode(block: bytes, dictionary: bytes = b"") -> bytes:
    """Return the contents of a block; raises IndexError if it is truncated."""
    out = bytearray(dictionary)
    place = 0

    def longer(length: int) -> int:
        nonlocal place
        if length == 15:
            while True:
                length += block[place]
                place += 1
                if block[place - 1] != 255:
                    break
        return length

    while True:
        token = block[place]
        place += 1
        literals = longer(token >> 4)
        out += block[place : place + literals]
        place += literals
        if place >= len(block):
            return bytes(out[len(dictionary) :])
        back = block[place] | block[place + 1] << 8
        place += 2
        for _ in range(longer(token & 15) + 4):
            out.append(out[-back])
