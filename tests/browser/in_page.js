// Runs in the page, beside JupyterLab: what has to be asked there is asked here, in one round trip each.
// Nothing here changes a notebook; the keys are pressed from outside, as a reader presses them.
(() => {
  const nextFrame = () => new Promise(done => requestAnimationFrame(() => done()));
  const soon = (promise, ms) => Promise.race([promise, new Promise(done => setTimeout(() => done("late"), ms))]);
  const panelOfLab = () => window.jupyterapp.shell.currentWidget;
  const kernel = () => panelOfLab().sessionContext.session.kernel;
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const visible = element => element.checkVisibility({visibilityProperty: true}) && element.getClientRects().length > 0;

  async function until(test, ms) {
    const end = performance.now() + ms;
    for (;;) {
      const answer = test();
      if (answer || performance.now() > end) return answer;
      await nextFrame();
    }
  }

  // FNV-1a: pictures are compared by it, so that a megabyte of SVG stays in the page.
  function hash(text) {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    return (h >>> 0).toString(16) + ":" + text.length;
  }

  // The accessible name, as far as the markup of notebooks goes. A hidden label names nothing.
  function nameOf(element) {
    const by = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean)
      .map(id => document.getElementById(id)?.textContent.trim() || "").join(" ").trim();
    if (by) return by;
    const own = (element.getAttribute("aria-label") || "").trim();
    if (own) return own;
    // Not innerText: it is empty for what is off screen.
    const labels = [...(element.labels || [])].filter(label => getComputedStyle(label).display !== "none")
      .map(label => label.textContent.trim()).join(" ").trim();
    if (labels) return labels;
    if (element instanceof SVGElement) {
      const title = element.querySelector(":scope > title")?.textContent.trim();
      if (title) return title;
    }
    if (element.tagName === "IMG" && element.hasAttribute("alt")) return element.getAttribute("alt").trim();
    if (element.tagName === "BUTTON" && element.textContent.trim()) return element.textContent.trim();
    return (element.getAttribute("title") || "").trim();
  }

  const cells = () => panelOfLab().content.widgets;
  const cellOf = element => cells().findIndex(cell => cell.node.contains(element));

  // ---- the life of a notebook -----------------------------------------------------------------

  const heard = [];

  async function ready() {
    await until(() => window.jupyterapp && panelOfLab()?.sessionContext, 60000);
    const panel = panelOfLab();
    await panel.context.ready;
    // A notebook that names a kernel nobody has makes Lab ask, and `ready` waits for the answer for ever.
    const ready = await soon(panel.sessionContext.ready, 60000);
    if (ready === "late") throw new Error("no kernel: " + (document.querySelector(".jp-Dialog")?.innerText || "?"));
    await kernel().info;
    // Also what a widget's callback prints or raises, which Lab shows nowhere near the cell.
    kernel().iopubMessage.connect((_, message) => {
      const kind = message.header.msg_type, content = message.content;
      if (kind === "error") heard.push({kind, text: `${content.ename}: ${content.evalue}`,
        from: message.parent_header.msg_type});
      if (kind === "stream" && content.name === "stderr")
        heard.push({kind: "stderr", text: content.text, from: message.parent_header.msg_type});
    });
    const app = window.jupyterapp;
    if (!app.shell.leftCollapsed) app.shell.collapseLeft();
  }

  async function runAll(seconds) {
    const done = await soon(window.jupyterapp.commands.execute("notebook:run-all-cells"), seconds * 1000);
    return done !== "late";
  }

  const decoded = images => Promise.all(images.map(image => image.decode().catch(() => {})));

  // Everything that is on its way has arrived: the kernel answered after its last message, every widget has its
  // elements, every image is decoded, and a frame with it all has been drawn. True if it came to rest.
  async function settled(ms = 15000) {
    // Twice: a widget holds its newest message back until the kernel is done with the one before.
    await soon(kernel().requestKernelInfo(), ms);
    await soon(kernel().requestKernelInfo(), ms);
    const widgets = () => all(".jp-OutputArea-output[data-mime-type*='widget-view']")
      .every(node => node.querySelector(".jupyter-widgets, .widget-subarea > *") || /Error|not found/.test(node.innerText)
        || !visible(node));
    const rested = await until(widgets, ms);
    await soon(document.fonts.ready, ms);
    await soon(decoded(all(".jp-Notebook img")), ms);
    await nextFrame();
    await nextFrame();
    return Boolean(rested);
  }

  // The kernel has done what it was asked for, and says so.
  async function rested(ms = 15000) {
    await soon(kernel().requestKernelInfo(), ms);
    return until(() => kernel().status === "idle", ms);
  }

  async function askKernel(expression) {
    const future = kernel().requestExecute(
      // Empty code would run nothing at all, not even what counts the figures.
      {code: "pass", silent: true, store_history: false, user_expressions: {answer: expression}});
    const reply = await soon(future.done, 30000);
    return reply === "late" ? {status: "no answer"} : reply.content.user_expressions.answer;
  }

  // ---- what is on the page --------------------------------------------------------------------

  function cellStates() {
    return cells().map((cell, index) => ({
      index, type: cell.model.type, id: cell.model.id,
      count: cell.model.type === "code" ? cell.model.executionCount : null,
      source: cell.model.sharedModel.getSource(),
      outputs: cell.model.type === "code" ? cell.model.outputs.toJSON() : [],
    }));
  }

  function pictures() {
    const roots = ".jp-OutputArea-output, .jp-RenderedMarkdown";
    return all("img, svg, canvas").filter(element => element.closest(roots)
        // Parts of a picture, symbols Jupyter puts on its own buttons, and what is said to be no picture at all.
        && !element.parentElement.closest("svg, [role=img]") && !element.closest("[aria-hidden=true], [data-icon]"))
      .filter(visible).map(element => {
        const box = element.getBoundingClientRect();
        return {
          cell: cellOf(element), tag: element.tagName.toLowerCase(), role: element.getAttribute("role"),
          name: nameOf(element), drawn: box.width > 0 && box.height > 0
            && (element.tagName !== "IMG" || (element.complete && element.naturalWidth > 0)),
          source: (element.getAttribute("src") || "").slice(0, 60),
        };
      });
  }

  // Controls without a name; a slider's may be that of a number field in the same output.
  function nameless() {
    const found = [];
    for (const output of all(".jp-OutputArea-output").filter(node => !node.parentElement.closest(".jp-OutputArea-output"))) {
      const named = fields(output).map(nameOf).filter(Boolean);
      const cell = cellOf(output);
      for (const handle of handles(output)) {
        const label = labelOf(handle);
        if (!nameOf(handle) && !(label && named.some(name => says(name, label)))) found.push({cell, kind: "slider", label});
      }
      for (const [kind, selector] of [["number field", "input[type=number]"], ["list", "select"],
        ["checkbox", "input[type=checkbox]"], ["text field", "input[type=text], textarea"], ["button", "button"]])
        for (const element of all(selector, output).filter(visible))
          if (!nameOf(element)) found.push({cell, kind});
    }
    return found;
  }

  // A field called "number of heads" belongs to the slider "heads".
  const says = (name, label) => (" " + name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ") + " ")
    .includes(" " + label.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim() + " ");

  async function axeFindings(known) {
    // Lab's body hides what overflows it and is 0 px high, as all in it is placed absolutely: axe takes every text for
    // hidden and looks at no contrast. This changes nothing one can see.
    document.body.style.overflow = "visible";
    const {violations, passes} = await window.axe.run(".jp-Notebook");
    document.body.style.overflow = "";
    const found = [];
    if (![...violations, ...passes].some(({id}) => id === "color-contrast"))
      throw new Error("axe did not look at the contrast of any text");
    for (const {id, impact, help, nodes} of violations)
      for (const node of nodes) {
        const element = document.querySelector(node.target.flat().at(-1));
        if (known.some(({rule, selector}) => rule === id && element?.matches(selector))) continue;
        const why = [...node.any, ...node.all, ...node.none].map(check => check.message).join("; ");
        found.push({rule: id, impact, help, what: why.slice(0, 300), html: node.html.slice(0, 200),
          cell: element ? cellOf(element) : "?"});
      }
    return found;
  }

  // ---- panels ---------------------------------------------------------------------------------

  const panels = () => all(".mha-panel").filter(panel => !panel.parentElement.closest(".mha-panel"));
  const handles = panel => all(".widget-slider [role=slider], [role=slider]", panel).filter(visible);
  const fields = panel => all("input[type=number]", panel).filter(visible);
  const lists = panel => all("select", panel).filter(visible);
  const switches = panel => all("input[type=checkbox], .widget-toggle-button, .widget-toggle-buttons button", panel)
    .filter(visible);
  const CONTROLS = {handles, fields, lists, switches};
  const control = (panel, kind, index) => CONTROLS[kind](panels()[panel])[index];

  function labelOf(handle) {
    const box = handle.closest(".widget-slider");
    return (box?.querySelector(".widget-label")?.textContent || nameOf(handle)).trim();
  }

  // The number field of a slider: the one of its name, or -1.
  function fieldOf(handle, numbers) {
    const label = labelOf(handle);
    return label ? numbers.findIndex(field => says(nameOf(field), label)) : -1;
  }

  function groupOf(panel, item) {
    const group = item.closest(".widget-toggle-buttons");
    return group ? all(".widget-toggle-buttons", panel).indexOf(group) : null;
  }

  // As a reader picks from a list; the keys for that differ from system to system.
  function choose(panel, index, at) {
    const list = control(panel, "lists", index);
    list.focus();
    list.selectedIndex = at;
    list.dispatchEvent(new Event("input", {bubbles: true}));
    list.dispatchEvent(new Event("change", {bubbles: true}));
  }

  // What a panel shows: every element in it that says what sizes it was drawn for.
  function viewsOf(panel) {
    return all("[data-of]", panel).filter(visible).map(element => {
      const copy = element.cloneNode(true);
      copy.removeAttribute("data-of");
      const notice = element.closest(".mha-notice");
      return {of: element.dataset.of, notice: Boolean(notice), role: notice?.closest("[role]")?.getAttribute("role"),
        content: hash(copy.outerHTML), text: element.innerText?.trim().slice(0, 200) || ""};
    });
  }

  function describe(index) {
    const panel = panels()[index];
    const number = (element, attribute) => Number(element.getAttribute(attribute));
    const views = viewsOf(panel);
    const shown = panel.cloneNode(true);
    // The controls show their own value anyway; what counts is the rest.
    all("input, select, .widget-slider, .widget-toggle-button, .widget-toggle-buttons, .widget-checkbox", shown)
      .forEach(part => part.remove());
    const room = panel.closest(".jp-OutputArea-output").getBoundingClientRect().right;
    const numbers = fields(panel);
    return {
      cell: cellOf(panel),
      stands_out: Math.round(Math.max(0, ...all("svg, img, input, select, button, .mha-notice", panel)
        // What a picture holds is cut off at its own edge.
        .filter(element => visible(element) && !element.parentElement.closest("svg"))
        .map(element => element.getBoundingClientRect().right)) - room),
      sliders: handles(panel).map((handle, at) => ({at, label: labelOf(handle), name: nameOf(handle),
        field: fieldOf(handle, numbers), now: number(handle, "aria-valuenow"), min: number(handle, "aria-valuemin"),
        max: number(handle, "aria-valuemax"), step: handle.closest(".noUi-target")?.noUiSlider?.options.step || 1, tab: handle.tabIndex,
        disabled: handle.closest("[disabled], .noUi-disabled") !== null})),
      fields: fields(panel).map((field, at) => ({at, name: nameOf(field), value: field.value, min: field.min,
        max: field.max, step: field.step, disabled: field.disabled})),
      lists: lists(panel).map((list, at) => ({at, name: nameOf(list), chosen: list.selectedIndex,
        options: [...list.options].map(option => option.text), disabled: list.disabled})),
      switches: switches(panel).map((item, at) => ({at, name: nameOf(item), disabled: item.disabled,
        group: groupOf(panel, item),
        on: item.checked ?? item.classList.contains("mod-active")})),
      views,
      content: hash(views.map(view => view.content).join()),
      shown: hash(shown.innerHTML),
      errors: all(".mha-error", panel).filter(visible).map(error => error.innerText.trim()),
    };
  }

  // Does the picture show what the controls say? The four sizes come in this order.
  const SIZES = ["batch", "tokens", "width", "heads"];
  function outOfStep(state) {
    if (!state.views.length) return "shows neither a picture nor a notice with data-of";
    for (const slider of state.sliders) {
      const at = SIZES.indexOf(slider.label);
      if (at < 0) continue;
      const field = state.fields[slider.field];
      const says = field ? Number(field.value) : slider.now;
      // A number between two steps or beyond the ends is the field's alone; the slider then stands next to it.
      const near = Math.min(slider.max, Math.max(slider.min, says)), between = (near - slider.min) % slider.step !== 0;
      if (Math.abs(slider.now - near) > (between ? slider.step / 2 : 0))
        return `the ${slider.label} slider says ${slider.now}, its number field ${field.value}`;
      for (const view of state.views)
        if (Number(view.of.split(",")[at]) !== says)
          return `the ${slider.label} slider says ${says}, the ${view.notice ? "notice" : "picture"} was drawn for ${view.of}`;
    }
    return "";
  }

  // Wait until the panel is in step with its sliders, and, if wanted, differs from what it showed.
  async function follow(index, {differsFrom = null, at = "content", slider = null, value = null}, ms) {
    let state, problem;
    await until(() => {
      state = describe(index);
      problem = outOfStep(state);
      if (!problem && slider !== null && state.sliders[slider].now !== value)
        problem = `the ${state.sliders[slider].label} slider stands at ${state.sliders[slider].now}, not at ${value}`;
      if (!problem && differsFrom !== null && state[at] === differsFrom) problem = "shows the same as before";
      return !problem;
    }, ms);
    return {state, problem};
  }

  // A size was typed that no slider reaches: either the field takes another one, or the panel says what it makes of it.
  const answersTo = (index, field, size, value, ms) => until(() => {
    const panel = panels()[index];
    return Number(fields(panel)[field].value) !== value
      || viewsOf(panel).some(view => Number(view.of.split(",")[size]) === value);
  }, ms);

  const inStep = ms => Promise.all(panels().map(async (_, index) => (await follow(index, {}, ms)).problem));

  function focus(panel, kind, index) {
    const element = control(panel, kind, index);
    element.focus();
    if (element.select) element.select();
    return document.activeElement === element;
  }

  const kindOf = (panel, element) => Object.keys(CONTROLS).map(kind => [kind, CONTROLS[kind](panel).indexOf(element)])
    .find(([, index]) => index >= 0) || null;

  function focusFirst(index) {
    const first = all("input, select, button, [tabindex]", panels()[index])
      .find(element => visible(element) && element.tabIndex >= 0 && !element.disabled);
    first?.focus();
  }

  function whereIsFocus(index) {
    const panel = panels()[index], element = document.activeElement;
    return {inside: panel.contains(element), control: panel.contains(element) ? kindOf(panel, element) : null};
  }

  async function stage(index) {
    panels()[index].scrollIntoView({block: "start"});
    await decoded(all("img", panels()[index]));
    await nextFrame();
    const {x, y, width, height} = panels()[index].getBoundingClientRect();
    return {x, y, width, height};
  }

  async function scrollToFirst() {
    (panels()[0] || cells()[0].node).scrollIntoView({block: "start"});
    await nextFrame();
    await nextFrame();
  }

  const notebookHeight = () => {
    const notebook = panelOfLab().content;
    const outer = notebook.outerNode || notebook.node;
    // Not scrollHeight: Lab lets one scroll a whole window past the end.
    const end = cells().at(-1).node.getBoundingClientRect().bottom - outer.getBoundingClientRect().top + outer.scrollTop;
    return {content: Math.ceil(end) + 30, frame: window.innerHeight - outer.clientHeight};
  };

  async function setTheme(theme) {
    if (document.body.dataset.jpThemeName === theme) return;
    await window.jupyterapp.commands.execute("apputils:change-theme", {theme});
    // While one theme goes and the other comes, a curtain hangs over the page, and slowly fades.
    await until(() => document.body.dataset.jpThemeName === theme && !document.getElementById("jupyterlab-splash"), 15000);
  }

  window.mha = {answersTo, rested, ready, choose, scrollToFirst, nameless, says, axe: axeFindings, runAll, settled, askKernel, cellStates, pictures, panelCount: () => panels().length, describe,
    follow, inStep, focus, focusFirst, whereIsFocus, stage, notebookHeight, setTheme, heard: () => heard, cellOf, all,
    visible, until, nextFrame, decoded, panels, handles, SIZES};
})();
