"""Models that generate no text have a separate page: it compares texts, ranks documents and classifies texts."""

import json
import math

import httpx
import pytest
import vector_models
from browser_page import SIZES, browser, click_seen, keep, watched  # noqa: F401
from conftest import serving

both = pytest.mark.parametrize("size", SIZES)


def serve(name, tmp_path_factory, **how):
    folder, _ = vector_models.write(name, tmp_path_factory.mktemp(name) / "m", **how)
    return serving(folder, "--dtype", "float32", "--served-model-name", name)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    with serve("bert", tmp_path_factory, pooling="mean") as server:
        yield server


@pytest.fixture(scope="module")
def reranker(tmp_path_factory):
    with serve("bert_cross", tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    with serve("xlm_roberta_classes", tmp_path_factory) as server:
        yield server


def write(page, field, text):
    click_seen(page, page.locator(field))
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def done(page):
    page.wait_for_function("() => / in \\d/.test(document.querySelector('.compare [role=status]').textContent)")


@both
def test_texts_are_compared(embedder, watched, size):
    page = watched.open(embedder.url + "/", wait="#texts", viewport=SIZES[size])
    assert page.locator("#prompt").count() == 0, "there is no chat that could not work"
    assert page.inner_text("#tabs a[aria-current]") == "Compare"
    assert httpx.get(embedder.url + "/props").json()["pooling_task"] == "embed"
    texts = ["a cat", "a dog and a cat", "a cat"]
    write(page, "#texts", "\n".join(texts))
    click_seen(page, page.locator("#compare"))
    done(page)
    keep(page, f"compare-{size}")
    shown = page.evaluate(
        "() => [...document.querySelectorAll('.matrix tbody tr')].map((row) =>"
        " [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent)))"
    )
    vectors = [
        row["embedding"]
        for row in httpx.post(embedder.url + "/v1/embeddings", json={"model": "bert", "input": texts}).json()["data"]
    ]
    for i, a in enumerate(vectors):
        for j, b in enumerate(vectors):
            cosine = sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)
            assert abs(shown[i][j] - cosine) < 0.006, (i, j)
    assert shown[0][2] == 1 and "Most similar: 1 and 3" in page.inner_text(".compare-result")
    # Paragraphs, where there are blank lines.
    write(page, "#texts", "one\nstill one\n\ntwo")
    click_seen(page, page.locator("#compare"))
    page.wait_for_function("() => document.querySelectorAll('.matrix tbody tr').length === 2")
    write(page, "#texts", "alone")
    click_seen(page, page.locator("#compare"))
    page.wait_for_selector("text=Enter at least 2 texts.")
    write(page, "#texts", "\n".join("abc" for _ in range(65)))
    click_seen(page, page.locator("#compare"))
    page.wait_for_selector("text=65 texts; the limit is 64.")
    write(page, "#texts", "a\n" + "a " * 600)
    watched.allow("400")
    click_seen(page, page.locator("#compare"))
    page.wait_for_selector("text=maximum context length")


@both
def test_documents_are_ranked(reranker, watched, size):
    page = watched.open(reranker.url + "/", wait="#query", viewport=SIZES[size])
    documents = ["a b c", "d e f", "a"]
    write(page, "#query", "a b")
    write(page, "#texts", "\n".join(documents))
    click_seen(page, page.locator("#compare"))
    done(page)
    keep(page, f"rank-{size}")
    rows = httpx.post(
        reranker.url + "/rerank", json={"model": "bert_cross", "query": "a b", "documents": documents}
    ).json()["results"]
    assert page.locator(".rank-text").all_inner_texts() == [documents[row["index"]] for row in rows]
    assert page.locator(".rank-says").all_inner_texts() == [f"{row['relevance_score']:.4f}" for row in rows]


def test_texts_are_classified(classifier, watched):
    page = watched.open(classifier.url + "/", wait="#texts", viewport=SIZES["phone"])
    assert page.inner_text("#tabs a[aria-current]") == "Classify"
    write(page, "#texts", "a b\nc d")
    click_seen(page, page.locator("#compare"))
    done(page)
    rows = httpx.post(
        classifier.url + "/classify", json={"model": "xlm_roberta_classes", "input": ["a b", "c d"]}
    ).json()["data"]
    labels = [says.split(",")[0] for says in page.locator(".rank-says").all_inner_texts()]
    assert labels == [row["label"] for row in rows], json.dumps(rows)
    keep(page, "classify")


def test_lessons_say_that_they_need_another_model(embedder, watched):
    page = watched.open(embedder.url + "/#lessons", wait="#lesson-beams")
    page.wait_for_function("() => document.querySelector('#tabs a').textContent === 'Compare'")
    click_seen(page, page.locator("#lesson-beams"))
    page.wait_for_selector("text=The lessons need a model that generates text")
