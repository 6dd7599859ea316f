"""The prompts in a log of `pagoda serve --record`, as token ids (src/sim/run_log.h)."""

SUBMIT = 2


def number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def prompts(path):
    data = path.read_bytes()
    assert data[:8] == b"PAGODARL"
    at, found = 9, []
    while at < len(data):
        kind = data[at]
        length, at = number(data, at + 1)
        if kind == SUBMIT:
            _, place = number(data, at)  # the request's id
            count, place = number(data, place)
            tokens = []
            for _ in range(count):
                value, place = number(data, place)
                tokens.append((value >> 1) ^ -(value & 1))
            found.append(tokens)
        at += length + 4
    return found
