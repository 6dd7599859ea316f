"""The rules for words that tools/check holds: comments, header comments, help texts, pages and the glossary."""

import pathlib
import re

# A comment that begins so continues a sentence that nobody has read.
FRAGMENT = re.compile(r"(?:of|what|who|where)\b", re.I)
# A help text names the thing, or says what the flag does.
HELP_TEXT = re.compile(r"\.(?:help|details)\s*=\s*\"(of|what|who|whose|as|instead|where|likewise)\b", re.I)
HEADER_LINES = 10
SENTENCE_MEAN, SENTENCE_P90, CELL_CHARACTERS = 25, 40, 200
# Phrases of pages for which technical English has a plain verb or a noun: "in turn", "anyone who", "is reported".
PAGE_PHRASE = re.compile(r"\b(?:whoever|nobody|by turns|(?:is|are|was|were) told|gone on with|cannot be had)\b", re.I)
# The same in comments, where some of these words may stand.
COMMENT_PHRASE = re.compile(r"(?://|#|\"\"\").*\b((?:is|are) told of|gone on with)\b", re.I)
# Numbers of lists that no page has any more.
LIST_NUMBER = re.compile(r"(?://|#|\"\"\")\s*[RD]\d{1,2}\b(?:, [RD]\d{1,2})*:")


def comments(text, lead):
    """(line number, text) of each comment: of a block its first line, of code what stands behind it."""
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
    """Comments that begin as fragments, and numbers of lists that are gone."""
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
    """Header comments over HEADER_LINES lines; kernels explain layouts and may take more."""
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
    """Help texts that begin with a word that only continues a sentence."""
    for match in HELP_TEXT.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a help text begins with '{match[1]}'"


def paragraphs(page):
    """The running text of a page: no headings, tables, code or pictures; a list item is a paragraph of its own."""
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
    """Words of each sentence; a code span is one word."""
    lengths = []
    for paragraph in paragraphs(page):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "Code", paragraph))
        for sentence in re.split(r"(?<=[.!?])[\"”)*]*\s+(?=[A-Z`*(\"“\[0-9])", plain):
            if words := sentence.split():
                lengths.append(len(words))
    return sorted(lengths)


def page_errors(path, page):
    """Pages whose sentences or table cells are too long to read."""
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
    """(term, words that it replaces) of each row of docs/glossary.md."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] != "term" and not set(cells[0]) <= set("-: "):
            yield cells[0], re.findall(r"`([^`]+)`", cells[2])


def glossary_errors(page, sources):
    """Terms that occur nowhere in `sources` ({path: text}), and replaced words that still do."""
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
