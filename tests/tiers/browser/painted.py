"""The canvases of the engine view with a fixed state, as PNG files and as pixels. Only geometry and colours are
compared: text is masked, because fonts differ between machines.

    $(script/setup --tier browser) tests/tiers/browser/painted.py     makes pictures/*.png anew"""

import base64
import pathlib
import sys

PICTURES = pathlib.Path(__file__).resolve().parent / "pictures"
NAMES = ("map", "rows", "steps")
SCHEMES = ("light", "dark")

PAINT = """async (name) => {
  const folder = document.querySelector('script[type=module]').src.replace(/[^/]*$/, '');
  const {LiveState} = await import(folder + 'livestate.js');
  const {KvMap} = await import(folder + 'kvmap.js');
  const {Timeline} = await import(folder + 'timeline.js');
  const state = new LiveState();
  const steps = Array.from({length: 50}, (_, i) => [i, i * 1000, 900, i % 10 === 0 ? 40 : 0, 8 + i % 4, 0, 8, 8, i === 20 ? 1 : 0, i % 7 === 0 ? 2 : 0, i === 20 ? 3 : 0, i === 30 ? 3 : 0, 0, 8, 20]);
  state.apply({type: 'hello', boot: 'x', blocks: 40, block_size: 16, groups: [{}], max_num_batched_tokens: 50});
  state.apply({type: 'snap', n: 0, step: 1, now: 1, available: 1, swap_free: 0, steps, ended: [], missed: 0, cached: [4, 5, 17, 30], prefixes: [['p', [20, 21]]],
    events: [], requests: [[0, 'running', 'running', 0, 0, 0, 0, 20, 0, 0, 0, false], [1, 'running', 'running', 0, 0, 0, 0, 20, 0, 0, 0, false]],
    sequences: [[0, 0, 0, 'resident', 60, 60, 0, -1, 0, 0, [0, 1, 2, 3]], [1, 0, 1, 'resident', 60, 60, 0, -1, 0, 0, [0, 1, 2, 8]], [2, 1, 0, 'resident', 40, 40, 0, -1, 0, 0, [20, 10, 11]]]});
  state.events = [{step: 1, kind: 'copy', sequence: 1, block: 3, to: 8, count: 1}];
  const box = document.createElement('div');
  box.style.cssText = 'position: fixed; left: 0; top: 0; width: 162px; height: 82px; display: flex; z-index: 9;';
  document.body.append(box);
  let canvas;
  if (name === 'steps') {
    const timeline = new Timeline(() => {});
    timeline.node.style.width = '100%';
    box.append(timeline.node);
    timeline.draw(state);
    canvas = timeline.canvas;
  } else {
    const map = new KvMap(state, () => {});
    map.node.style.height = '82px';
    box.append(map.node);
    map.setZoom(3);
    map.lit.set(1, '#d6247a');
    if (name === 'rows') map.setRows(true);
    else map.update();
    map.paint();
    canvas = map.canvas;
  }
  const context = canvas.getContext('2d');
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = '#808080';
  if (name === 'steps') context.fillRect(0, 0, 162, 16);  // the letters
  for (let block = 0; name !== 'steps' && block < 60; ++block) context.fillRect(block % 10 * 16 + 5, Math.floor(block / 10) * 16 + 5, 6, 6);
  const url = canvas.toDataURL('image/png');
  box.remove();
  return url.slice(url.indexOf(',') + 1);
}"""

# The number of pixels that differ by more than rounding.
COMPARE = """async ([one, other]) => {
  const pixels = async (text) => {
    const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))], {type: 'image/png'}));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext('2d', {willReadFrequently: true});
    context.drawImage(bitmap, 0, 0);
    return [bitmap.width, bitmap.height, context.getImageData(0, 0, bitmap.width, bitmap.height).data];
  };
  const [[width, height, a], [wide, high, b]] = [await pixels(one), await pixels(other)];
  if (width !== wide || height !== high) return 1;
  let differ = 0;
  for (let i = 0; i < a.length; i += 4) if ([0, 1, 2].some((k) => Math.abs(a[i + k] - b[i + k]) > 48)) ++differ;
  return differ / (width * height);
}"""


def painted(page, name):
    return base64.b64decode(page.evaluate(PAINT, name))


def difference(page, one, other):
    return page.evaluate(COMPARE, [base64.b64encode(one).decode(), base64.b64encode(other).decode()])


def main():
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
    from browser_page import launched
    from conftest import default_model, serving

    PICTURES.mkdir(exist_ok=True)
    with serving(default_model(), "--max-model-len", "512") as server:
        for scheme in SCHEMES:
            page = launched().new_page(color_scheme=scheme)
            page.goto(server.url + "/")
            page.wait_for_selector("#prompt")
            for name in NAMES:
                (PICTURES / f"{name}-{scheme}.png").write_bytes(painted(page, name))


if __name__ == "__main__":
    main()
