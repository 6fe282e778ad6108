"""How long from pressing a key on a slider to seeing the new picture, in JupyterLab and Chromium?

    python benchmarks/press_to_pixels.py            # measure, print the table
    python benchmarks/press_to_pixels.py --check    # and fail if a goal is missed
    python benchmarks/press_to_pixels.py notebooks/00_start_here.ipynb notebooks/01_shapes.ipynb:0
                                                    # also every slider of these panels

All rows are measured in one run, in turns, so that a busy minute of the machine falls on all of them; what counts
are the ratios. The clock runs from the keydown event to the frame after the new picture is in the page with all its
images decoded. `floor` swaps two pictures made in advance: what the browser, the kernel and the wire take anyway.
`naive` is what one gets from `interact` and a new figure for every move. benchmarks/README.md says more.
"""

from __future__ import annotations

import argparse
import base64
import json
import platform
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "tests"))

import psutil  # noqa: E402
from browser.driver import BrowserMissing, OpenNotebook, lab_and_browser  # noqa: E402
from browser.stand_in import notebook  # noqa: E402

# What is promised, and checked with --check.
AT_MOST_TIMES_THE_FLOOR = 2.0
AT_LEAST_TIMES_FASTER_THAN_NAIVE = 8.0
LARGEST_P95_MS = 100.0
# The row that sleeps 100 ms on purpose must come out about that much above the floor, or the clock is wrong.
SLEEP_MS = (85.0, 125.0)
# For each row, after the clock has stopped: every frame of so many presses is looked at for flicker.
FILMED_PRESSES = 4

# ---------------------------------------------------------------------------------------------
# The cells that are measured

OURS = """
from mha_lib import samples
from mha_lib.controls import explore

def flow(dims):
    return samples.layer(dims).trace(samples.inputs(dims))

explore(flow)
"""

FORWARD = """
import numpy as np
rng = np.random.default_rng(0)
W_Q, W_K, W_V, W_O = rng.standard_normal((4, 512, 512), dtype=np.float32) / np.float32(512 ** 0.5)

def split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)  # (B, T, D) -> (B, H, T, d_k)

def forward(batch, tokens, heads):
    x = rng.standard_normal((batch, tokens, 512), dtype=np.float32)
    q, k, v = (split(x @ W, heads) for W in (W_Q, W_K, W_V))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(512 // heads)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights, (weights @ v).swapaxes(1, 2).reshape(x.shape) @ W_O
"""

NAIVE = FORWARD + """
import matplotlib.pyplot as plt
from ipywidgets import interact

@interact(batch=(1, 4), tokens=(1, 64), heads=[1, 2, 4, 8, 16])
def show(batch=2, tokens=10, heads=8):
    weights, output = forward(batch, tokens, heads)
    fig, axes = plt.subplots(2, 4, figsize=(12, 6))
    for head, ax in enumerate(axes.flat[:heads]):
        ax.imshow(weights[0, head], vmin=0, vmax=1)
        ax.set_title(f"head {head}")
    plt.show()
"""

# Two pictures of the size and kind of the naive one, made in advance.
FLOOR = FORWARD + """
import base64, io
from matplotlib.figure import Figure
import ipywidgets as w
from IPython.display import display

def picture(tokens):
    fig = Figure(figsize=(12, 6))
    weights, output = forward(2, tokens, 8)
    for head, ax in enumerate(fig.subplots(2, 4).flat):
        ax.imshow(weights[0, head], vmin=0, vmax=1)
    png = io.BytesIO()
    fig.savefig(png, dpi=72)
    data = base64.b64encode(png.getvalue()).decode()
    return f'<img width="864" height="432" alt="{tokens} tokens" src="data:image/png;base64,{data}">'

pictures = [picture(10), picture(11)]
slider = w.IntSlider(description="tokens", min=1, max=64, value=10)
view = w.HTML(pictures[0])
view.add_class("mha-picture")

def swap(change):
    view.value = pictures[change["new"] % 2]

slider.observe(swap, "value")
panel = w.VBox([slider, view])
panel.add_class("mha-panel")
display(panel)
"""

SLEEPY = FLOOR.replace("def swap(change):", "import time\n\ndef swap(change):\n    time.sleep(0.1)")


@dataclass
class Row:
    """One slider that is moved to and fro, and what that took."""

    name: str
    book: str  # the notebook it is in; rows of one notebook share a tab
    slider: str
    cell: str | None = None  # what the notebook consists of, unless it is one of the course
    panel: int = 0
    sizes: dict[str, int | str] = field(default_factory=dict)  # typed into the number fields first; or "max"
    share: float = 1.0  # of the presses
    times: list[float] = field(default_factory=list)
    in_page: list[float] = field(default_factory=list)
    frames: dict[str, int] = field(default_factory=dict)
    filmed: int = 0  # frames looked at, and those with too little in them
    flashes: int = 0
    note: str = ""


ARTICLE = {"batch": 2, "tokens": 10, "width": 512, "heads": 8}
LARGEST = {"batch": "max", "tokens": "max", "width": "max", "heads": "max"}


def standard_rows() -> list[Row]:
    return [
        Row("floor", "bench_floor.ipynb", "tokens", FLOOR),
        Row("naive, tokens", "bench_naive.ipynb", "tokens", NAIVE, share=0.5),
        Row("ours, tokens", "bench_ours.ipynb", "tokens", OURS, sizes=ARTICLE),
        # 504 is the width next to 512 that 7, 8 and 9 heads divide, so that one press leads from picture to picture.
        Row("ours, heads", "bench_heads.ipynb", "heads", OURS, sizes=ARTICLE | {"width": 504}),
        Row("ours, largest, tokens", "bench_largest.ipynb", "tokens", OURS, sizes=LARGEST),
        Row("ours, largest, batch", "bench_largest_batch.ipynb", "batch", OURS, sizes=LARGEST, share=0.5),
        Row("floor + 100 ms asleep", "bench_sleepy.ipynb", "tokens", SLEEPY, share=0.5),
    ]


# ---------------------------------------------------------------------------------------------
# The clock, in the page

CLOCK = """
(() => {
  const holders = panel => {
    const root = mha.panels()[panel] || document.querySelector(".widget-interact");
    const found = mha.all(".mha-picture, .widget-output", root);
    return found.length ? found : [root];
  };
  const shown = holder => mha.all("svg, img, canvas, .mha-notice", holder)
    .filter(part => !part.parentElement.closest("svg"))
    .some(part => { const box = part.getBoundingClientRect(); return box.width > 8 && box.height > 8; });
  const images = holders => holders.flatMap(holder => mha.all("img, image", holder)).filter(image => image.decode);
  const handleOf = (panel, label) => {
    const root = mha.panels()[panel] || document.querySelector(".widget-interact");
    return root && mha.handles(root).find(handle =>
      handle.closest(".widget-slider").querySelector(".widget-label").textContent.trim() === label);
  };

  // Was the picture drawn for other sizes than the sliders say? Cheap, as the clock is running.
  const behind = (place, sliders) => {
    const of = place.querySelector("[data-of]")?.dataset.of.split(",");
    return of && sliders.some(([at, handle]) => Number(of[at]) !== Number(handle.getAttribute("aria-valuenow")));
  };

  // Get ready for one key press, and say on the console when the frame that shows its picture is there.
  function arm(panel, label, watchFrames) {
    const places = holders(panel), handle = handleOf(panel, label);
    handle.focus({preventScroll: true});
    const before = handle.getAttribute("aria-valuenow");
    const frames = {waiting: 0, blank: 0, undecoded: 0, jumps: 0};
    let pressed = null, changed = null, decoded = false;
    const sliders = mha.SIZES.map((size, at) => [at, handleOf(panel, size)]).filter(([, handle]) => handle);
    const heights = places.map(place => place.getBoundingClientRect().height);
    const listener = event => { pressed = event.timeStamp; };
    window.addEventListener("keydown", listener, {capture: true, once: true});
    const say = what => console.log("p2p " + JSON.stringify(what));
    const late = setTimeout(() => say({late: `no new picture 15 s after a key on ${label}, now ` +
      handle.getAttribute("aria-valuenow") + ", before " + before}), 15000);
    const observer = new MutationObserver(records => {
      if (pressed === null || changed !== null) return;
      // An emptied output is not yet a picture, nor is a picture drawn for other sizes than the sliders say.
      const fresh = records.some(record => record.type === "attributes" || [...record.addedNodes]
        .some(node => node.nodeType === 1));
      // It may not have its size yet: a picture is loaded after its element is there.
      if (!fresh || !places.some(place => place.querySelector("svg, img, canvas, .mha-notice"))) return;
      if (places.some(place => behind(place, sliders))) return;
      changed = performance.now();
      observer.disconnect();
      Promise.all(images(places).map(image => image.decode().catch(() => {}))).then(() => {
        decoded = true;
        requestAnimationFrame(() => {
          // The task after a frame: by then that frame has been laid out and painted.
          const channel = new MessageChannel();
          channel.port1.onmessage = () => {
            clearTimeout(late);
            say({total: performance.now() - pressed, inPage: changed - pressed, frames,
              moved: handle.getAttribute("aria-valuenow") !== before});
          };
          channel.port2.postMessage(0);
        });
      });
    });
    for (const place of places)
      observer.observe(place, {childList: true, subtree: true, attributes: true,
        attributeFilter: ["src", "href", "data-of"]});
    // Right before each frame: is there a picture in it, and is the place as high as it was?
    const sample = () => {
      if (pressed !== null) {
        if (!places.some(shown)) frames.blank++;
        else if (changed !== null && !decoded) frames.undecoded++;
        else if (changed === null) frames.waiting++;
        if (places.some((place, at) => place.getBoundingClientRect().height < 0.9 * heights[at])) frames.jumps++;
      }
      if (!decoded) requestAnimationFrame(sample);
    };
    if (watchFrames) requestAnimationFrame(sample);
  }
  const over = async () => {
    const says = mha.panels().some((_, index) => mha.describe(index).views.length);
    if (says) await mha.inStep(5000);
    await mha.rested();
  };
  // Where the picture is on the screen: left, top, right, bottom.
  const box = panel => {
    const sides = holders(panel).map(place => place.getBoundingClientRect()).find(rect => rect.height > 8);
    return {window: innerWidth, sides: [sides.left, Math.max(0, sides.top), Math.min(innerWidth, sides.right),
      Math.min(innerHeight, sides.bottom)]};
  };
  const read = (panel, label, what) => Number(handleOf(panel, label).getAttribute("aria-value" + what));
  window.p2p = {box, arm, over, value: (panel, label) => read(panel, label, "now"),
    ends: (panel, label) => [read(panel, label, "min"), read(panel, label, "max")]};
})();
"""


class Tab:
    """An open notebook with a clock in it."""

    def __init__(self, lab, context, name: str):
        self.nb = OpenNotebook(lab, context, name)
        self.page = self.nb.page
        self.page.set_viewport_size({"width": 1280, "height": 1000})
        self.nb.run_all()
        if errors := [out for cell in self.page.evaluate("() => mha.cellStates()") for out in cell["outputs"]
                      if out["output_type"] == "error"]:
            raise RuntimeError(f"{name} does not run: {errors[0]['ename']}: {errors[0]['evalue']}")
        self.page.evaluate(CLOCK)

    def show(self, panel: int) -> None:
        self.page.bring_to_front()
        self.page.evaluate("""panel => { (mha.panels()[panel] || document.querySelector(".widget-interact"))
            .scrollIntoView({block: "start"}); return mha.nextFrame(); }""", panel)

    def set_sizes(self, row: Row) -> None:
        """Bring the sliders to the sizes a row starts from."""
        if not row.sizes:
            return
        self.show(row.panel)
        for label, value in row.sizes.items():
            state = self.page.evaluate("panel => mha.describe(panel)", row.panel)
            slider = next(slider for slider in state["sliders"] if slider["label"] == label)
            if value == "max":
                self.page.evaluate("([panel, at]) => mha.focus(panel, 'handles', at)", [row.panel, slider["at"]])
                self.page.keyboard.press("End")
            elif slider["now"] != value:
                self.page.evaluate("([panel, at]) => mha.focus(panel, 'fields', at)", [row.panel, slider["field"]])
                self.page.keyboard.type(str(value))
                self.page.keyboard.press("Enter")
            # The field tells the kernel, the kernel the slider: until then the panel is in step with the old size.
            wanted = {} if value == "max" else {"slider": slider["at"], "value": value}
            answer = self.page.evaluate("([panel, wanted]) => mha.follow(panel, wanted, 20000)", [row.panel, wanted])
            if answer["problem"]:
                raise RuntimeError(f"{row.name}: {answer['problem']}")
        # At the ends width and heads may not divide; the picture is wanted, not the notice.
        while answer["state"]["views"][0]["notice"] and row.sizes.get("heads") == "max":
            heads = next(slider for slider in answer["state"]["sliders"] if slider["label"] == "heads")
            if heads["now"] == 1:
                break
            self.page.evaluate("([panel, at]) => mha.focus(panel, 'handles', at)", [row.panel, heads["at"]])
            self.page.keyboard.press("ArrowLeft")
            answer = self.page.evaluate("panel => mha.follow(panel, {}, 20000)", row.panel)
        view = answer["state"]["views"][0]
        row.note = f"at {view['of']}" + (", a notice instead of the picture" if view["notice"] else "")

    def press(self, row: Row, key: str, watch_frames: bool, pause: float = 0.1) -> dict:
        """One key press, from rest to rest."""
        self.page.evaluate("([panel, label, watch]) => p2p.arm(panel, label, watch)",
                           [row.panel, row.slider, watch_frames])
        time.sleep(pause)
        # While the clock runs the page is not asked for anything: it says by itself when it is done. The key goes up
        # after that, as those who hold it down for a moment do.
        with self.page.expect_console_message(lambda message: message.text.startswith("p2p ")) as said:
            self.page.keyboard.down(key)
        self.page.keyboard.up(key)
        landed = json.loads(said.value.text.removeprefix("p2p "))
        if "late" in landed:
            raise RuntimeError(f"{row.name}: {landed['late']}")
        # The next press waits until this one is over for every panel and for the kernel.
        self.page.evaluate("() => p2p.over()")
        return landed

    def film(self, row: Row, key: str) -> None:
        """Press a key, look at every frame Chromium shows, and count those with clearly less ink than before and after.

        A picture that is taken away before the next one is there, or whose images come after its frame, shows so.
        """
        import io

        import numpy as np
        from PIL import Image

        box = self.page.evaluate("panel => p2p.box(panel)", row.panel)
        shots: list[bytes] = []
        devtools = self.page.context.new_cdp_session(self.page)

        def keep(frame) -> None:
            shots.append(base64.b64decode(frame["data"]))
            devtools.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

        devtools.on("Page.screencastFrame", keep)
        devtools.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})
        self.page.wait_for_timeout(150)
        self.press(row, key, watch_frames=False)
        self.page.wait_for_timeout(250)
        devtools.send("Page.stopScreencast")
        devtools.detach()
        ink = []
        for shot in shots:
            with Image.open(io.BytesIO(shot)) as image:
                scale = image.width / box["window"]
                part = image.convert("L").crop([round(side * scale) for side in box["sides"]])
                ink.append(float((255 - np.asarray(part, dtype=float)).mean()))
        row.filmed += len(ink)
        row.flashes += sum(amount < 0.8 * min(ink[0], ink[-1]) for amount in ink)

    def keys(self, row: Row):
        """One step to and one step fro, starting where there is room."""
        low, high = self.page.evaluate("([panel, label]) => p2p.ends(panel, label)", [row.panel, row.slider])
        now = self.page.evaluate("([panel, label]) => p2p.value(panel, label)", [row.panel, row.slider])
        there = ["ArrowRight", "ArrowLeft"] if now < high and row.slider != "heads" else ["ArrowLeft", "ArrowRight"]
        return there[::-1] if now == low else there


def measure(rows: list[Row], tabs: dict[str, Tab], presses: int, rounds: int, rng: random.Random) -> None:
    for row in rows:
        tab = tabs[row.book]
        tab.set_sizes(row)
    for part in range(-1, rounds):  # a first round to warm up, whose times are thrown away
        for row in rows:
            tab = tabs[row.book]
            tab.show(row.panel)
            there, back = tab.keys(row)
            count = 4 if part < 0 else max(2, round(presses * row.share / rounds / 2) * 2)
            for press in range(count):
                watch = part < 0 or press < 2  # sampling frames costs a little; a few presses are enough
                # Not in step with the screen's 60 Hz, as people are not.
                landed = tab.press(row, back if press % 2 else there, watch, rng.uniform(0.08, 0.16))
                if not landed["moved"]:
                    raise RuntimeError(f"{row.name}: a key did not move the slider")
                if watch:
                    for kind, number in landed["frames"].items():
                        row.frames[kind] = row.frames.get(kind, 0) + number
                    row.frames["presses"] = row.frames.get("presses", 0) + 1
                if part >= 0:
                    row.times.append(landed["total"])
                    row.in_page.append(landed["inPage"])
    for row in rows:
        tab = tabs[row.book]
        tab.show(row.panel)
        there, back = tab.keys(row)
        for press in range(FILMED_PRESSES):
            tab.film(row, back if press % 2 else there)


# ---------------------------------------------------------------------------------------------
# What came out


def percentile(times: list[float], share: float) -> float:
    ordered = sorted(times)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def table(rows: list[Row]) -> str:
    medians = {row.name: statistics.median(row.times) for row in rows}
    floor, naive = medians.get("floor"), medians.get("naive, tokens")
    head = ["", "presses", "median ms", "p95 ms", "middle half", "quickest tenth", "in page ms", "× floor",
            "naive ÷ it", "flicker", ""]
    lines = [head]
    for row in rows:
        median = medians[row.name]
        frames = row.frames
        lines.append([
            row.name, str(len(row.times)), f"{median:.1f}", f"{percentile(row.times, 0.95):.1f}",
            f"{percentile(row.times, 0.25):.1f}–{percentile(row.times, 0.75):.1f}",
            f"{percentile(row.times, 0.1):.1f}",
            f"{statistics.median(row.in_page):.1f}",
            f"{median / floor:.2f}" if floor else "", f"{naive / median:.1f}" if naive else "",
            f"{row.flashes + frames['blank'] + frames['jumps']} of {row.filmed + frames['waiting'] + frames['blank']}",
            row.note,
        ])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) if column in (0, 10) else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
                     for line in lines)


def missed_goals(rows: list[Row]) -> list[str]:
    by_name = {row.name: row for row in rows}
    floor, naive, ours = (statistics.median(by_name[name].times) for name in ("floor", "naive, tokens", "ours, tokens"))
    # Quartiles: presses that nothing else on the machine disturbed.
    asleep = (percentile(by_name["floor + 100 ms asleep"].times, 0.25) - percentile(by_name["floor"].times, 0.25))
    largest = percentile(by_name["ours, largest, tokens"].times, 0.95)
    missed = []
    if ours > AT_MOST_TIMES_THE_FLOOR * floor:
        missed.append(f"ours takes {ours / floor:.2f} times the floor, more than {AT_MOST_TIMES_THE_FLOOR:g}")
    if naive / ours < AT_LEAST_TIMES_FASTER_THAN_NAIVE:
        missed.append(f"ours is {naive / ours:.1f} times faster than naive, not {AT_LEAST_TIMES_FASTER_THAN_NAIVE:g}")
    if largest > LARGEST_P95_MS:
        missed.append(f"the largest sizes take {largest:.0f} ms at the 95th percentile, more than {LARGEST_P95_MS:g}")
    if not SLEEP_MS[0] <= asleep <= SLEEP_MS[1]:
        missed.append(f"the clock is off: 100 ms of sleep came out as {asleep:.0f}")
    for row in rows:
        if row.name.startswith("ours") and (bad := row.flashes + row.frames["blank"] + row.frames["jumps"]):
            missed.append(f"{row.name}: {bad} frames flicker")
    return missed


def rows_of(course_notebook: Path, panel: int | None, tab: Tab) -> list[Row]:
    """A row for every slider of one panel or of all panels of a notebook."""
    count = tab.page.evaluate("() => mha.panelCount()")
    return [Row(f"{course_notebook.stem}, panel {index}, {slider['label']}", course_notebook.name, slider["label"],
                panel=index, share=0.5)
            for index in (range(count) if panel is None else [panel])
            for slider in tab.page.evaluate("index => mha.describe(index)", index)["sliders"]
            if slider["max"] > slider["min"]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", help="a notebook, or NOTEBOOK:PANEL, whose sliders to measure as well")
    parser.add_argument("--presses", type=int, default=40, help="for each row; fewer where it says so (default 40)")
    parser.add_argument("--rounds", type=int, default=4, help="turns the rows take (default 4)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--only", default="", help="only the rows whose name contains this")
    parser.add_argument("--json", type=Path, help="write all times there")
    options = parser.parse_args(arguments)

    rows = [row for row in standard_rows() if options.only in row.name]
    named = []
    for argument in options.notebooks:
        path, _, panel = argument.rpartition(":") if argument.rpartition(":")[2].isdigit() else (argument, "", "")
        named.append((Path(path).resolve(), int(panel) if panel else None))
    tabs: dict[str, Tab] = {}
    busy = psutil.cpu_percent(interval=1.0)
    with tempfile.TemporaryDirectory() as empty, lab_and_browser(Path(empty)) as (lab, context):
        folder = lab.copy / "notebooks"
        for row in rows:
            notebook(folder / row.book, row.cell, stored=False)
        for path, _ in named:
            (folder / path.name).write_bytes(path.read_bytes())
        for name in dict.fromkeys([*(row.book for row in rows), *(path.name for path, _ in named)]):
            print(f"opening {name}", file=sys.stderr, flush=True)
            tabs[name] = Tab(lab, context, name)
        for path, panel in named:
            rows += rows_of(path, panel, tabs[path.name])
        print("pressing keys", file=sys.stderr, flush=True)
        measure(rows, tabs, options.presses, options.rounds, random.Random(0))
        browser = context.browser.version if context.browser else ""
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, Chromium {browser}".rstrip())
    if busy > 15:
        print(f"Something else took {busy:.0f} % of this machine before the start: all times are too long, those that "
              "compute much more than the others.")
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=1))
    if options.check:
        missed = missed_goals(rows)
        print("\n".join(["", *(f"missed: {goal}" for goal in missed)]) if missed else "\nevery goal is met")
        return 1 if missed else 0
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrowserMissing as missing:
        sys.exit(str(missing))
