"""The rules of tools/check for prose: comments, header comments, help texts, pages and the glossary."""

import pathlib
import re

# A comment that begins with one of these words is a fragment that continues a missing sentence.
FRAGMENT = re.compile(r"(?:of|what|who|where)\b", re.I)
# A help text must be a noun phrase or say what the flag does.
HELP_TEXT = re.compile(r"\.(?:help|details)\s*=\s*\"(of|what|who|whose|as|instead|where|likewise)\b", re.I)
HEADER_LINES = 10
SENTENCE_MEAN, SENTENCE_P90, CELL_CHARACTERS = 25, 40, 200
# Phrases in pages for which technical English has a plain verb or noun: "in turn", "anyone who", "is reported".
PAGE_PHRASE = re.compile(r"\b(?:whoever|nobody|by turns|(?:is|are|was|were) told|gone on with|cannot be had)\b", re.I)
# The same for comments, where some of these words are allowed.
COMMENT_PHRASE = re.compile(r"(?://|#|\"\"\").*\b((?:is|are) told of|gone on with)\b", re.I)
# Item numbers of lists that no longer exist.
LIST_NUMBER = re.compile(r"(?://|#|\"\"\")\s*[RD]\d{1,2}\b(?:, [RD]\d{1,2})*:")


def comments(text, lead):
    """Yields (line number, text) of each comment: the first line of a comment block, and comments after code."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.lstrip()
        if stripped.startswith(lead):
            body = stripped[len(lead) :].strip()
            if not inside and body:
                yield number, body
            inside = bool(body)
            continue
        inside = False
        mark = line.rfind("  " + lead + " ")
        if mark > 0 and line[:mark].count('"') % 2 == 0:
            yield number, line[mark + len(lead) + 2 :].strip()


def comment_errors(path, text):
    """Yields comments that begin as fragments, and item numbers of lists that no longer exist."""
    lead = "//" if pathlib.Path(path).suffix in (".h", ".cc", ".cpp", ".cu", ".cuh", ".js") else "#"
    for number, body in comments(text, lead):
        if match := FRAGMENT.match(body):
            yield f"{path}:{number}: a comment begins with '{match[0]}': say it as a sentence with a subject"
    for number, line in enumerate(text.splitlines(), 1):
        if LIST_NUMBER.search(line):
            yield f"{path}:{number}: a number of a list that is not there: name the test or say it in words"
        if not path.startswith("tools/") and (match := COMMENT_PHRASE.search(line)):
            yield f"{path}:{number}: '{match[1]}': say what is called, reported or resumed"


def header_errors(path, text):
    """Yields header comments over HEADER_LINES lines. Kernels explain layouts and may have more."""
    if path.startswith(("src/kernels/", "src/device/kernels/")):
        return
    lines = text.splitlines()
    start = 1 if lines[:1] == ["#pragma once"] else 0
    length = 0
    while start + length < len(lines) and lines[start + length].startswith("//"):
        length += 1
    if length > HEADER_LINES:
        yield f"{path}:{start + 1}: the header comment has {length} lines, at most {HEADER_LINES} are read"


def help_errors(path, text):
    """Yields help texts that begin with a word that continues a missing sentence."""
    for match in HELP_TEXT.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a help text begins with '{match[1]}'"


def paragraphs(page):
    """Returns the paragraphs of a page without headings, tables, code and pictures. Each list item is a paragraph."""
    found, now, code, in_list = [], [], False, False
    for line in [*page.splitlines(), ""]:
        stripped = line.lstrip()
        if stripped.startswith("```"):
            code = not code
        item = re.match(r"\s*(?:[*+-]|\d+\.) (.*)", line)
        in_list = bool(item) or (in_list and line.startswith(" ") and bool(stripped))
        indented = line.startswith("    ") and not in_list
        ends = code or indented or not stripped or stripped.startswith(("|", "#", "<", "![", "```", "    "))
        if ends or item:
            if now:
                found.append(" ".join(now))
            now = [item[1]] if item and not ends else []
        else:
            now.append(stripped)
    return found


def sentence_lengths(page):
    """Returns the number of words of each sentence, sorted. A code span is one word."""
    lengths = []
    for paragraph in paragraphs(page):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "Code", paragraph))
        for sentence in re.split(r"(?<=[.!?])[\"”)*]*\s+(?=[A-Z`*(\"“\[0-9])", plain):
            if words := sentence.split():
                lengths.append(len(words))
    return sorted(lengths)


def page_errors(path, page):
    """Yields an error if sentences or table cells of a page are too long."""
    lengths = sentence_lengths(page)
    if len(lengths) >= 5:
        mean, p90 = sum(lengths) / len(lengths), lengths[int(0.9 * (len(lengths) - 1))]
        if mean > SENTENCE_MEAN or p90 > SENTENCE_P90:
            yield (f"{path}: sentences have {mean:.0f} words on average and {p90} at the 90th percentile; "
                   f"{SENTENCE_MEAN} and {SENTENCE_P90} are read easily")  # fmt: skip
    for number, line in enumerate(page.splitlines(), 1):
        if match := PAGE_PHRASE.search(re.sub(r"`[^`]*`", "", line)):
            yield f"{path}:{number}: '{match[0]}': say it in plain technical English"
        if line.startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                if len(cell.strip()) > CELL_CHARACTERS:
                    yield f"{path}:{number}: a table cell has {len(cell.strip())} characters, at most {CELL_CHARACTERS}"


def glossary_rows(page):
    """Yields (term, words that it replaces) of each row of docs/glossary.md."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] != "term" and not set(cells[0]) <= set("-: "):
            yield cells[0], re.findall(r"`([^`]+)`", cells[2])


def glossary_errors(page, sources):
    """Yields terms that do not occur in `sources` ({path: text}), and replaced words that still do."""
    everything = "\n".join(sources.values()).lower().replace("_", " ").replace("-", " ")
    for term, replaced in glossary_rows(page):
        if term.lower().replace("_", " ").replace("-", " ") not in everything:
            yield f"docs/glossary.md: '{term}' occurs nowhere"
        for word in replaced:
            pattern = re.compile(rf"\b{re.escape(word)}\b")
            for path, text in sources.items():
                if match := pattern.search(text):
                    line = text.count("\n", 0, match.start()) + 1
                    yield f"{path}:{line}: '{word}': docs/glossary.md says '{term}'"
