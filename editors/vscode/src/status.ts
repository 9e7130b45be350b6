/** The one status item: what Vivace is doing, or why nothing comes and what to do about it. */

import { Disposable, StatusBarAlignment, ThemeColor, window } from "vscode";
import type { Status } from "./protocol";

type State = "starting" | "untrusted" | "missing" | "failed" | Status["state"];

const ICONS: Record<State, string> = {
  starting: "$(loading~spin)",
  ready: "$(zap)",
  busy: "$(loading~spin)",
  paused: "$(debug-pause)",
  unreachable: "$(debug-disconnect)",
  untrusted: "$(shield)",
  missing: "$(warning)",
  failed: "$(error)",
};
const WARNINGS: ReadonlySet<State> = new Set<State>(["unreachable", "missing", "failed"]);

export class StatusItem implements Disposable {
  /** In a sentence, for a person who wants something that cannot be had now. */
  reason = "";
  state: State = "starting";

  private readonly item = window.createStatusBarItem("vivace.status", StatusBarAlignment.Right, 100);
  private readonly following = window.onDidChangeActiveTextEditor(() => this.choose());
  /** What the server told last, by document; of all documents under the empty name. */
  private readonly told = new Map<string, Status>();

  constructor() {
    this.item.name = "Vivace";
    this.item.command = "vivace.menu";
    this.item.show();
  }

  /** What the extension knows by itself; what a server told before no longer counts. */
  show(state: "starting" | "ready" | "untrusted" | "missing" | "failed", reason: string): void {
    this.told.clear();
    this.draw(state, reason);
  }

  tell(status: Status): void {
    this.told.set(status.uri, status);
    this.choose();
  }

  dispose(): void {
    Disposable.from(this.item, this.following).dispose();
  }

  /** Of the file on the screen, unless something is in the way of all. */
  private choose(): void {
    const all = this.told.get("");
    const here = this.told.get(window.activeTextEditor?.document.uri.toString() ?? "");
    const status = all?.why ? all : (here ?? all);
    if (!status) return;
    const { state, why, model, speed, queue } = status;
    const facts = [
      model,
      speed === null ? "" : `${Math.round(speed)} tokens a second`,
      queue === null ? "" : `place ${queue} in the queue`,
    ];
    const lines = [why, facts.filter(Boolean).join(", ")].filter(Boolean);
    this.draw(state, lines.join("\n") || "Ready.", queue);
  }

  private draw(state: State, reason: string, queue: number | null = null): void {
    this.state = state;
    this.reason = reason;
    this.item.text = `${ICONS[state]} Vivace${queue ? ` ${queue}` : ""}`;
    this.item.tooltip = reason;
    this.item.accessibilityInformation = { label: `Vivace: ${reason}` };
    this.item.backgroundColor = WARNINGS.has(state) ? new ThemeColor("statusBarItem.warningBackground") : undefined;
  }
}
