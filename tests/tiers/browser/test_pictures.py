"""The map and the timeline are unchanged: compared pixel by pixel with small pictures in pictures/ (made by
painted.py)."""

import pytest
from browser_page import ARTEFACTS, browser, watched  # noqa: F401
from painted import NAMES, PICTURES, SCHEMES, difference, painted


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_canvases_are_painted_as_before(server, watched, scheme):
    page = watched.open(server.url + "/", color_scheme=scheme)
    other = SCHEMES[1 - SCHEMES.index(scheme)]
    for name in NAMES:
        now, before = painted(page, name), (PICTURES / f"{name}-{scheme}.png").read_bytes()
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        (ARTEFACTS / f"painted-{name}-{scheme}.png").write_bytes(now)
        assert difference(page, now, before) <= 0.01, f"{name}: see {ARTEFACTS}; painted.py makes the pictures anew"
        assert difference(page, now, (PICTURES / f"{name}-{other}.png").read_bytes()) > 0.1, (
            "the comparison sees what is different"
        )
