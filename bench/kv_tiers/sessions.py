"""Agent sessions modelled on Mooncake's figures: a prompt that grows with each turn, gaps in which other sessions
continue, and two or three output tokens for hundreds of prompt tokens. Token ids are random; equal seeds give equal
sessions."""

import itertools
import math
import random

BLOCK = 16


def sessions(number, first, last, seed=60):
    """Returns sessions with `first` tokens in their first turn that grow to a length between `first` and `last`. Half
    of the first turn is a prefix (system prompt, tools) common to the sessions of a kind."""
    dice = random.Random(seed)
    kinds = [[dice.randrange(200, 40000) for _ in range(first // 2)] for _ in range(3)]
    out = []
    for i in range(number):
        # Lengths are spread evenly, so that a few sessions have the same mean as many.
        length = first + (last - first) * (2 * i + 1) // (2 * number)
        own = [dice.randrange(200, 40000) for _ in range(length - first // 2)]
        tokens, turns, end = kinds[i % 3] + own, [], first
        while end < length:
            turns.append(tokens[:end])
            end += dice.randrange(300, 900)
        out.append([*turns, tokens])
    return out


def schedule(sessions, seed=61, gap=math.e):
    """Returns the turns of all sessions in one order. A session continues after a gap in which some or all others
    continue, and all return once more at the end. `gap`: the median gap; the sessions begin within as many units of
    time as there are sessions."""
    dice = random.Random(seed)
    due = [(dice.random() * len(sessions), i, 0) for i in range(len(sessions))]
    out = []
    while due:
        due.sort()
        now, i, turn = due.pop(0)
        out.append(sessions[i][turn])
        if turn + 1 < len(sessions[i]):
            # Log-normal gaps: most agents return within seconds, some after minutes.
            due.append((now + gap * dice.lognormvariate(0, 1), i, turn + 1))
    returning = list(range(len(sessions)))
    dice.shuffle(returning)
    return out + [sessions[i][-1] for i in returning]


def blocks(prompt):
    """Returns the names of the full blocks of a prompt. The last token is always computed."""
    chain, out = 0, []
    for i in range((len(prompt) - 1) // BLOCK):
        chain = hash((chain, *prompt[i * BLOCK : (i + 1) * BLOCK]))
        out.append(chain)
    return out


def possible_hits(order):
    """Returns the number of tokens that an unbounded cache finds."""
    known, hits = set(), 0
    for prompt in order:
        names = blocks(prompt)
        hits += BLOCK * sum(1 for _ in itertools.takewhile(known.__contains__, names))
        known.update(names)
    return hits


def best_hits(order, capacity):
    """Returns the number of tokens that the optimal cache of `capacity` tokens finds. It knows the future and evicts
    the block that is needed last (Belady), the end of a prompt before its beginning."""
    turns = [blocks(prompt) for prompt in order]
    uses = {}
    for time, names in enumerate(turns):
        for place, name in enumerate(names):
            uses.setdefault(name, []).append((time, place))
    never, held, hits = len(turns), {}, 0
    for names in turns:
        hits += BLOCK * sum(1 for _ in itertools.takewhile(held.__contains__, names))
        for name in names:
            uses[name].pop(0)
            time, place = uses[name][0] if uses[name] else (never, 1 << 30)
            held[name] = (time, place)
        for name in sorted(held, key=held.__getitem__)[capacity // BLOCK :]:
            del held[name]
    return hits
