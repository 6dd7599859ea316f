"""Handwritten and random expressions and grammars, checked with independent parsers: Python's `regex` and lark. They
must accept all complete answers of a random model. For answers cut off by `max_tokens`, `regex` checks that they are
the beginning of a match."""

import concurrent.futures
import random

import httpx
import lark
import pytest
import regex
from conftest import serving, small_model

EXPRESSIONS = [
    r"[a-z]{3}-\d{2,4}",
    r"(yes|no|may be)",
    r"\w{1,9}@\w{1,9}\.(com|org)",
    r"[^\"x]{1,5}",
    r"(\+\d{1,2} )?\(\d{3}\) \d{3}",
    r"a.c",
    r"\d+(\.\d+)?",
    r"[äöü]{2}",
    r"\s?x\S",
    r"[\d\-_.]{4}",
    r"(?:ab)+",
    r"^abc$",
    r"(a|b(c|d(e|f)))+;",
    r"[\]\[^]{1,3}",
    r"\x41\u0042[\u00e4-\u00f6]",
    r"(\{|\})\\(\/|\.)",
    r"[A-F0-9]{8}(-[A-F0-9]{4}){3}",
    r"(https?|ftp)://[a-z]+(\.[a-z]{2,3}){1,2}(/[a-z0-9_]*)*",
    r"([01]\d|2[0-3]):[0-5]\d",
    r"",
]


SPACE = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


@pytest.fixture(scope="module")
def http():
    with (
        serving(small_model(), "--served-model-name", "small") as server,
        httpx.Client(base_url=server.url, timeout=120) as client,
    ):
        if (
            "no grammars"
            in client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, "guided_regex": "a"}).text
        ):
            pytest.skip("this build has no XGrammar: structured output is not tested")
        yield client


def say(http, seed, **form):
    answer = http.post(
        "/v1/completions", json={"prompt": "Once upon", "temperature": 1, "seed": seed, "max_tokens": 40, **form}
    )
    assert answer.status_code == 200, (form, answer.text)
    choice = answer.json()["choices"][0]
    assert choice["finish_reason"] in ("stop", "length"), choice
    return choice["text"], choice["finish_reason"] == "stop"


def say_all(http, forms, seeds):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [(form, pool.submit(say, http, seed, **form)) for form in forms for seed in range(seeds)]
        return [(form, *job.result()) for form, job in jobs]


def draw_expression(draw, depth=0):
    kind = draw.choice(["text", "class", "class", "sequence", "choice", "many"] if depth < 3 else ["text", "class"])
    if kind == "text":
        return "".join(
            draw.choice(["a", "b", " ", "7", r"\.", r"\(", "é", "-", ","]) for _ in range(draw.randrange(1, 4))
        )
    if kind == "class":
        return draw.choice([r"\d", r"\w", "[a-f]", "[^a-f]", r"[\-x]", "[é-ü]", r"[^\"\\]", "[0-9A-Z_]"])
    if kind == "sequence":
        return "".join(draw_expression(draw, depth + 1) for _ in range(draw.randrange(2, 4)))
    if kind == "choice":
        return f"({'|'.join(draw_expression(draw, depth + 1) for _ in range(draw.randrange(2, 4)))})"
    return f"(?:{draw_expression(draw, depth + 1)})" + draw.choice(["?", "*", "+", "{2}", "{1,3}", "{0,2}", "{2,}"])


def test_every_answer_matches_the_expression(http):
    draw = random.Random(4)
    expressions = EXPRESSIONS + [draw_expression(draw) for _ in range(150)]
    wholes = {}
    for form, text, whole in say_all(http, [{"guided_regex": one} for one in expressions if one], 4):
        # As in JavaScript: \d and \w are limited to ASCII, \s is not; a dot matches any character.
        spelled = form["guided_regex"].replace(r"\s", f"[{SPACE}]").replace(r"\S", f"[^{SPACE}]")
        reader = regex.compile(spelled, regex.ASCII | regex.DOTALL | regex.V0)
        assert reader.fullmatch(text, partial=not whole), (form, text, whole)
        wholes[form["guided_regex"]] = wholes.get(form["guided_regex"], 0) + whole
    assert sum(count > 0 for count in wholes.values()) > 0.9 * len(wholes), [
        one for one, count in wholes.items() if not count
    ]


# Each grammar is written for lark; a second text is the same grammar in GBNF.
GRAMMARS = [
    ('start: "a" ("b" | "c")* "d"', 'root ::= "a" ("b" | "c")* "d"'),
    (
        'start: pair ("," pair)?\npair: /[a-c]/ "=" /[0-9]{1,2}/',
        'root ::= pair ("," pair)?\npair ::= [a-c] "=" [0-9]{1,2}',
    ),
    (
        'start: expr "=" term "\\n"\nexpr: term (/[-+*\\/]/ term)?\nterm: "x" | "(" term ")"',
        'root  ::= (expr "=" term "\\n")\nexpr  ::= term ([-+*/] term)?\nterm  ::= "x" | "(" term ")"  # a comment',
    ),
    (
        'start: value\nvalue: list | /[0-9]/ | "null"\nlist: "[" [value ("," value)*] "]"',
        'root ::= value\nvalue ::= list | [0-9] | "null"\nlist ::= "[" (value ("," value)*)? "]"',
    ),
    (
        'start: "<" NAME ">" start* "</" NAME ">"\nNAME: /[a-b]{1,2}/',
        'root ::= "<" name ">" root* "</" name ">"\nname ::= [a-b] [a-b]?',
    ),
    ('start: greeting " " NAME\ngreeting: "hi" | "ho"\nNAME: /[A-Z][a-z]/', None),
    ('start: DIGIT ~ 3 ("-" DIGIT ~ 2..4)?\nDIGIT: "0".."9"', None),
    ('start: word+ end\nword: "ab"i | "c"\nend: "." | "!"', None),
]


def draw_grammar(draw):
    """Returns a random grammar in lark's syntax and in GBNF."""
    names = [f"r{i}" for i in range(draw.randrange(1, 5))]

    def item(level, depth=0):
        kind = draw.choice(["text", "class", "rule", "rule", "group"] if depth < 2 else ["text", "class"])
        if kind == "rule" and level + 1 < len(names):
            name = names[draw.randrange(level + 1, len(names))]
            return name, name
        if kind == "group":
            texts = [sequence(level, depth + 1) for _ in range(draw.randrange(1, 3))]
            many = draw.choice(["", "?", "*", "+"])
            return tuple("(" + " | ".join(side) + ")" + many for side in zip(*texts))
        if kind == "class":
            one = draw.choice(["[a-c]", "[0-9]", "[^a-z0-9 ]"])
            return f"/{one}/", one
        text = '"' + draw.choice(["a", "bc", "(", "é", '\\"', "\\n", "x y", "\\\\"]) + '"'
        return text, text

    def sequence(level, depth=0):
        parts = [item(level, depth) for _ in range(draw.randrange(1, 4))]
        return tuple(" ".join(side) for side in zip(*parts))

    of_lark, of_gbnf = ["start: r0"], ["root ::= r0"]
    for level, name in enumerate(names):
        choices = [sequence(level) for _ in range(draw.randrange(1, 4))]
        if draw.random() < 0.4:  # recursive
            choices.append((f'"<" {name} ">"', f'"<" {name} ">"'))
        sides = [" | ".join(side) for side in zip(*choices)]
        of_lark.append(f"{name}: {sides[0]}")
        of_gbnf.append(f"{name} ::= {sides[1]}")
    return "\n".join(of_lark), "\n".join(of_gbnf)


def test_every_answer_is_of_the_grammar(http):
    draw = random.Random(6)
    grammars = GRAMMARS + [draw_grammar(draw) for _ in range(60)]
    readers, wholes = {}, {}
    for of_lark, of_gbnf in grammars:
        reader = lark.Lark(of_lark, parser="earley", lexer="dynamic_complete")
        for text in filter(None, (of_lark, of_gbnf)):
            readers[text] = reader
    for form, text, whole in say_all(http, [{"grammar": one} for one in readers], 3):
        if whole:
            try:
                readers[form["grammar"]].parse(text)
            except lark.exceptions.LarkError as error:
                pytest.fail(f"{form['grammar']}\n{text!r}\n{error}")
        wholes[form["grammar"]] = wholes.get(form["grammar"], 0) + whole
    assert sum(count > 0 for count in wholes.values()) > 0.9 * len(wholes), [
        one for one, count in wholes.items() if not count
    ]
