"""Using a panel as a reader without a mouse does: every slider to both ends, every field, list and switch."""

from __future__ import annotations

import time
from ast import literal_eval

from .checks import (
    FIGURES_AND_MIB,
    FIRST_ROUND_MIB,
    LATER_MIB,
    LATER_PRESSES,
    MAIN_SLIDERS,
    PATIENCE_MS,
    Album,
    check_callbacks,
    unique,
)
from .driver import OpenNotebook

GIVE_UP_AFTER = 4  # waits in vain, in one panel: what is wrong is clear by then, and each costs PATIENCE_MS


class GivenUp(Exception):
    pass


class Panel:
    """One panel of an open notebook, counted from 0 in reading order."""

    def __init__(self, nb: OpenNotebook, index: int, album: Album):
        self.nb, self.index, self.album = nb, index, album
        self.findings: list[str] = []
        self.in_vain = 0

    # -- asking and pressing

    def state(self) -> dict:
        return self.nb.page.evaluate("index => mha.describe(index)", self.index)

    def say(self, text: str) -> None:
        self.findings.append(f"panel {self.index} (cell {self.cell}): {text}")

    def focus(self, kind: str, at: int) -> bool:
        return self.nb.page.evaluate("([panel, kind, at]) => mha.focus(panel, kind, at)", [self.index, kind, at])

    def press(self, key: str) -> None:
        self.nb.page.keyboard.press(key)

    def follows(self, what: str, **wanted) -> dict:
        """Wait until the panel shows what its sliders say (see `follow` in the page); a finding if it never does."""
        answer = self.nb.page.evaluate("([panel, wanted, ms]) => mha.follow(panel, wanted, ms)",
                                       [self.index, wanted, PATIENCE_MS])
        if answer["problem"]:
            self.say(f"after {what}, {answer['problem']}")
            self.in_vain += 1
            if self.in_vain >= GIVE_UP_AFTER:
                self.say("the rest of this panel was not tried")
                raise GivenUp
        for error in answer["state"]["errors"]:
            self.say(f"after {what}, it shows an error: {error[:300]}")
        self.check_notice(answer["state"])
        return answer["state"]

    def check_notice(self, state: dict) -> None:
        """A notice about sizes that do not divide is announced, and names the two numbers."""
        now = {slider["label"]: str(int(slider["now"])) for slider in state["sliders"]}
        for view in state["views"]:
            if not view["notice"]:
                continue
            if view["role"] != "status":
                self.say('its notice has no role="status": a screen reader does not announce it')
            if "width" in now and "heads" in now and int(now["width"]) % int(now["heads"]):
                for number in (now["width"], now["heads"]):
                    if number not in view["text"].replace(",", ""):
                        self.say(f"its notice does not name {number}: {view['text'][:120]}")

    # -- the visit

    def visit(self) -> list[str]:
        self.start = start = self.state()
        self.cell = start["cell"]
        try:
            self.follows("running the notebook")
            if start["stands_out"] > 1:
                self.say(f"sticks out of the page by {start['stands_out']} px in a window of 1280 px")
            self.album.panel(self.index, "default")
            self.check_tab()
            for slider in start["sliders"]:
                self.try_slider(slider)
            for field in start["fields"]:
                self.try_field(field)
            for choice in start["lists"]:
                self.try_list(choice)
            for switch in start["switches"]:
                self.try_switch(switch)
        except GivenUp:
            pass
        self.restore()
        return unique(self.findings)

    def check_tab(self) -> None:
        """From the panel's first control, Tab comes by every other one, and gets out again."""
        page = self.nb.page
        missed = {(kind, item["at"]): item for kind, key in
                  (("handles", "sliders"), ("fields", "fields"), ("lists", "lists"))
                  for item in self.start[key] if not item["disabled"]}
        page.evaluate("index => mha.focusFirst(index)", self.index)
        for _ in range(80):
            at = page.evaluate("index => mha.whereIsFocus(index)", self.index)
            if not at["inside"]:
                break
            if at["control"]:
                missed.pop(tuple(at["control"]), None)
            self.press("Tab")
        else:
            self.say("Tab does not get out of it")
        for (kind, _), item in missed.items():
            thing = {"handles": "slider", "fields": "number field", "lists": "list"}[kind]
            self.say(f"Tab does not reach the {thing} “{item.get('label') or item['name']}”")

    def field_of(self, slider: dict) -> dict | None:
        return next((field for field in self.start["fields"] if field["at"] == slider["field"]), None)

    def try_slider(self, slider: dict) -> None:
        """Home, End, ArrowLeft, ArrowRight: the slider goes there, the picture follows, nothing else moves."""
        label, at = slider["label"] or "(unlabelled)", slider["at"]
        now = self.state()
        current = now["sliders"][at]  # the ends of a slider may have moved with another one
        if current["disabled"] or current["min"] == current["max"]:
            return
        if not self.focus("handles", at):
            self.say(f"the slider “{label}” does not take the focus")
            return
        ends = {}
        for key, value, name in (("Home", current["min"], "min"), ("End", current["max"], "max")):
            before = now
            self.press(key)
            moved = before["sliders"][at]["now"] != value
            now = self.follows(f"{key} on “{label}”", slider=at, value=value,
                               differsFrom=before["content"] if moved and before["views"] else None)
            self.check_others_stay(before, now, slider, key)
            self.album.panel(self.index, f"{label.replace(' ', '-')}-{name}")
            ends[name] = now["content"]
        if now["views"] and ends["min"] == ends["max"]:
            self.say(f"“{label}” at either end shows the same picture but for its data-of")
        for key in ("ArrowLeft", "ArrowRight"):
            before = now
            self.press(key)
            now = self.follows(f"{key} on “{label}”")
            if now["sliders"][at]["now"] == before["sliders"][at]["now"]:
                self.say(f"{key} does not move “{label}” from {before['sliders'][at]['now']:g}")
            self.check_others_stay(before, now, slider, key)
        self.put_slider(slider, current["now"])

    def check_others_stay(self, before: dict, now: dict, slider: dict, key: str) -> None:
        for old, new in zip(before["sliders"], now["sliders"], strict=False):
            if old["at"] != slider["at"] and old["label"] in MAIN_SLIDERS and old["now"] != new["now"]:
                self.say(f"{key} on “{slider['label']}” also moved “{old['label']}” from {old['now']:g} to "
                         f"{new['now']:g}")

    def put_slider(self, slider: dict, value: float) -> None:
        """Move a slider to `value`, through its number field if it has one."""
        if self.state()["sliders"][slider["at"]]["now"] == value:
            return
        if field := self.field_of(slider):
            self.type_in(field, value)
        else:
            self.focus("handles", slider["at"])
            self.press("Home")
            steps = (value - self.state()["sliders"][slider["at"]]["min"]) / slider["step"]
            for _ in range(min(round(steps), 500)):
                self.press("ArrowRight")
        self.follows(f"putting “{slider['label']}” back to {value:g}", slider=slider["at"], value=value)

    def type_in(self, field: dict, value: float) -> None:
        self.focus("fields", field["at"])
        self.nb.page.keyboard.type(f"{value:g}" if value != int(value) else str(int(value)))
        self.press("Enter")

    def try_field(self, field: dict) -> None:
        """A typed number and Enter: slider and picture follow."""
        if field["disabled"]:
            return
        name = field["name"] or f"number {field['at']}"
        slider = next((slider for slider in self.start["sliders"] if slider["field"] == field["at"]), None)
        before = self.state()
        old = float(before["fields"][field["at"]]["value"])
        step = slider["step"] if slider else float(field["step"] or 1)
        high = before["sliders"][slider["at"]]["max"] if slider else float(field["max"] or "inf")
        new = old + step if old + step <= high else old - step
        self.type_in(field, new)
        wanted = {"slider": slider["at"], "value": new} if slider else {}
        now = self.follows(f"typing {new:g} into “{name}” and Enter", differsFrom=before["content"], **wanted)
        if float(now["fields"][field["at"]]["value"] or "nan") != new:
            self.say(f"{new:g} typed into “{name}” became {now['fields'][field['at']]['value']}")
        self.type_in(field, old)
        self.follows(f"typing {old:g} into “{name}” and Enter",
                     **({"slider": slider["at"], "value": old} if slider else {}))

        if slider and slider["label"] in MAIN_SLIDERS:
            for absurd in (0, 10_000_000):
                self.try_absurd(field, slider, absurd)
            self.type_in(field, old)
            self.follows(f"typing {old:g} into “{name}” after absurd sizes", slider=slider["at"], value=old)

    def try_absurd(self, field: dict, slider: dict, value: int) -> None:
        """A size that cannot be is refused by the field, or told in words in the panel; nothing breaks."""
        self.type_in(field, value)
        refused = self.nb.page.evaluate(
            "([panel, field, size, value, ms]) => mha.answersTo(panel, field, size, value, ms)",
            [self.index, field["at"], MAIN_SLIDERS.index(slider["label"]), value, PATIENCE_MS])
        if not refused:
            self.say(f"{value} typed into “{field['name']}” is neither refused nor answered")
        for error in self.state()["errors"]:
            self.say(f"{value} typed into “{field['name']}” shows an error: {error[:300]}")

    def try_list(self, choice: dict) -> None:
        """Every option can be chosen; the panel stays in step, and at least one of them changes it."""
        if choice["disabled"] or len(choice["options"]) < 2:
            return
        page = self.nb.page
        first, changed = self.state(), False
        for at, option in enumerate(choice["options"]):
            before = self.state()
            if before["lists"][choice["at"]]["chosen"] == at:
                continue
            page.evaluate("([panel, list, at]) => mha.choose(panel, list, at)", [self.index, choice["at"], at])
            page.evaluate("() => mha.settled()")
            now = self.follows(f"choosing “{option}”")
            changed = changed or now["shown"] != before["shown"] or now["content"] != before["content"]
        if not changed:
            self.say(f"no choice from “{choice['name']}” changes anything")
        if first["lists"][choice["at"]]["chosen"] >= 0:
            page.evaluate("([panel, list, at]) => mha.choose(panel, list, at)",
                          [self.index, choice["at"], first["lists"][choice["at"]]["chosen"]])
            page.evaluate("() => mha.settled()")
        for slider in first["sliders"]:
            self.put_slider(slider, slider["now"])

    def try_switch(self, switch: dict) -> None:
        """A checkbox or button that is pressed changes what the panel shows, and back."""
        before = self.state()
        if switch["disabled"] or (switch["group"] is not None and before["switches"][switch["at"]]["on"]):
            return
        self.focus("switches", switch["at"])
        self.press("Space")
        self.follows(f"pressing “{switch['name']}”", differsFrom=before["shown"], at="shown")
        back = switch["at"]
        if switch["group"] is not None:
            back = next((other["at"] for other in before["switches"]
                         if other["group"] == switch["group"] and other["on"]), back)
        self.focus("switches", back)
        self.press("Space")
        self.follows(f"pressing “{switch['name']}” back")

    def restore(self) -> None:
        """All four sizes as they were, for the next panel and for the pictures of the whole notebook."""
        try:
            for slider in self.start["sliders"]:
                if slider["label"] in MAIN_SLIDERS:
                    self.put_slider(slider, slider["now"])
        except GivenUp:
            pass


def check_panels(nb: OpenNotebook, album: Album) -> list[str]:
    """Every panel answers to all of its controls, and in the end all show again what they showed at first."""
    def shown() -> list[list[str]]:
        return [[view["of"] for view in nb.page.evaluate("index => mha.describe(index)", index)["views"]]
                for index in range(nb.page.evaluate("() => mha.panelCount()"))]

    findings, first = [], shown()
    for index in range(len(first)):
        findings += Panel(nb, index, album).visit()
    problems = nb.page.evaluate("ms => mha.inStep(ms)", PATIENCE_MS)
    findings += [f"panel {index}, when all is done: {problem}" for index, problem in enumerate(problems) if problem]
    if not findings and (last := shown()) != first:
        findings.append(f"put back, the panels show {last} and not {first} as before")
    return unique(findings + check_callbacks(nb))


def check_leaks(nb: OpenNotebook, slide) -> list[str]:
    """Call `slide()` and then slide on: the kernel lives, keeps no figure, and no memory to speak of."""
    page, findings = nb.page, []
    figures, mib = literal_eval(nb.ask_kernel(FIGURES_AND_MIB))
    slide()
    kept, after = literal_eval(nb.ask_kernel(FIGURES_AND_MIB))
    if after - mib > FIRST_ROUND_MIB:
        findings.append(f"using all panels once grew the kernel by {after - mib:.0f} MiB, more than {FIRST_ROUND_MIB}")
    for index in range(page.evaluate("() => mha.panelCount()")):
        sliders = page.evaluate("index => mha.describe(index)", index)["sliders"]
        slider = next((s for s in sliders if s["label"] == "tokens"), sliders[0] if sliders else None)
        if not slider or slider["min"] == slider["max"]:
            continue
        page.evaluate("([panel, at]) => mha.focus(panel, 'handles', at)", [index, slider["at"]])
        there, back = ("ArrowRight", "ArrowLeft") if slider["now"] < slider["max"] else ("ArrowLeft", "ArrowRight")
        for press in range(LATER_PRESSES):
            page.keyboard.press(back if press % 2 else there)
            page.evaluate("([panel, ms]) => mha.follow(panel, {}, ms)", [index, 2_000])
    page.evaluate("() => mha.settled()")
    open_now, more = literal_eval(nb.ask_kernel(FIGURES_AND_MIB))
    if more - after > LATER_MIB:
        findings.append(f"sliding to and fro grows the kernel by {more - after:.0f} MiB, more than {LATER_MIB}")
    if (most := max(kept, open_now)) > figures:
        findings.append(f"sliding leaves figures open: {figures} before, {most} after")
    if not is_alive(nb):
        findings.append("the kernel does not answer any more")
    return unique(findings + check_callbacks(nb))


def is_alive(nb: OpenNotebook) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            return nb.ask_kernel("6 * 7") == "42"
        except RuntimeError:
            nb.page.evaluate("() => mha.nextFrame()")
    return False
