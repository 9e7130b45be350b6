// node driver.mjs FOLDER URL: the hands and eyes of the tests in a VS Code that a browser shows.
//
// FOLDER is what scripts/install-vscode made. Each line of standard input is one thing to do, as JSON:
// [name, ...arguments]; each is answered by a line, {"result": …} or {"error": …}.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, url] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/package.json`)("playwright-core");

const PATIENCE = 60_000; // only a hang reaches it
const TO_START = 120_000; // how soon VS Code itself is there says nothing of us
const INPUT = ".quick-input-widget";
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
page.setDefaultTimeout(PATIENCE);

/** What stands in the editor that has the focus, as functions of the page. */
await page.addInitScript(() => {
  const textOf = (element) => element.textContent.replaceAll("\u00a0", " ").replaceAll("\u200b", "");
  const textsOf = (selector) => [...document.querySelectorAll(selector)].map(textOf);
  const INSIDE = ".view-lines [class*='ghost-text-decoration']";
  const BELOW = ".view-zones .suggest-preview-text .view-line";
  globalThis.vivace = {
    /** The ghost text: what stands in the line of the cursor, then the lines below it. */
    ghost: () => [textsOf(INSIDE).join(""), ...textsOf(BELOW)].join("\n"),
    hunks: () => {
      const after = [...document.querySelectorAll(".view-line span[class*='ced-']")];
      return after.map((element) => getComputedStyle(element, "::after").content).filter((text) => text !== "none");
    },
    /** How many places are marked, of the lines that are drawn. */
    marks: () => document.querySelectorAll(".view-overlays [class*='squiggly-']").length,
    /** Looks at every frame that is painted until `seen` is asked for. */
    watch: () => {
      const frames = [];
      let going = true;
      const look = () => {
        frames.push(globalThis.vivace.ghost());
        if (going) requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
      globalThis.vivace.seen = () => {
        going = false;
        return frames;
      };
    },
  };
});

const verbs = {
  async load() {
    await page.goto(url, { timeout: TO_START });
    await page.waitForSelector(".monaco-workbench", { timeout: TO_START });
  },
  async trust() {
    await page.getByRole("button", { name: "Yes, I trust the authors" }).click();
  },
  /** Of a notebook, the last cell. */
  async open(path) {
    await page.keyboard.press("Control+p");
    await verbs.waitForInput();
    await page.keyboard.insertText(path);
    const name = path.split("/").at(-1);
    await verbs.waitForEntry(name);
    await page.keyboard.press("Enter");
    await page.waitForSelector(`.tab.active[data-resource-name="${name}"]`);
    const notebook = name.endsWith(".ipynb"); // its cells are drawn over the place of an editor
    if (notebook) await page.locator(".notebookOverlay .cell .monaco-editor").last().click();
    const around = notebook ? ".notebookOverlay" : ".editor-instance";
    await page.waitForSelector(`${around} .monaco-editor.focused .view-line`);
  },
  async press(...keys) {
    for (const key of keys) await page.keyboard.press(key);
  },
  /** As a person types, key by key, so many milliseconds apart. */
  async type(text, delay = 0) {
    await page.keyboard.type(text, { delay });
  },
  async ghost() {
    return page.evaluate(() => globalThis.vivace.ghost());
  },
  async waitForGhost(text) {
    await page.waitForFunction((wanted) => globalThis.vivace.ghost().includes(wanted), text);
  },
  async waitForNoGhost() {
    await page.waitForFunction(() => !globalThis.vivace.ghost());
  },
  async watch() {
    await page.evaluate(() => globalThis.vivace.watch());
  },
  async seen() {
    return page.evaluate(() => globalThis.vivace.seen());
  },
  async hunks() {
    return page.evaluate(() => globalThis.vivace.hunks());
  },
  async waitForHunk(text) {
    await page.waitForFunction((wanted) => globalThis.vivace.hunks().some((hunk) => hunk.includes(wanted)), text);
  },
  async waitForNoHunks() {
    await page.waitForFunction(() => !globalThis.vivace.hunks().length);
  },
  /** Code in one line, without spaces: an editor draws them as it likes. */
  async waitForCode(text) {
    await page.waitForFunction((wanted) => document.querySelector(".view-lines").textContent.includes(wanted), text);
  },
  async marks() {
    return page.evaluate(() => globalThis.vivace.marks());
  },
  async waitForMarks(count) {
    await page.waitForFunction((wanted) => globalThis.vivace.marks() === wanted, count);
  },
  /** The first of what can be done here, which must be this. */
  async takeFix(title) {
    await page.keyboard.press("Control+.");
    await page.locator(".action-widget .monaco-list-row.focused", { hasText: title }).waitFor();
    await page.keyboard.press("Enter");
  },
  /** The status item, in the words that a screen reader says. */
  async status() {
    return page.locator("#vivace\\.vivace\\.vivace\\.status a").getAttribute("aria-label");
  },
  async waitForStatus(words) {
    await page.waitForFunction(
      (wanted) => document.querySelector("[id='vivace.vivace.vivace.status'] a")?.ariaLabel?.includes(wanted),
      words,
    );
  },
  async waitForInput() {
    await page.waitForSelector(`${INPUT} input:focus`);
  },
  async waitForNoInput() {
    await page.waitForSelector(INPUT, { state: "hidden" });
  },
  /** That the first of what is offered is this. */
  async waitForEntry(title) {
    await page.locator(`${INPUT} .monaco-list-row.focused`, { hasText: title }).waitFor();
  },
  async bePatient(seconds) {
    page.setDefaultTimeout(1000 * seconds);
  },
  async resize(width, height) {
    await page.setViewportSize({ width, height });
  },
  async screenshot(path) {
    await page.screenshot({ path });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line);
  let answer;
  try {
    answer = { result: (await verbs[name](...given)) ?? null };
  } catch (error) {
    const told = () => {}; // what is told is the error above, not that of its picture
    await page.screenshot({ path: "failed.png" }).catch(told);
    answer = { error: error.message };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
