/** Edits in the making: which documents have one, and its hunks drawn into the text as they settle. */

import {
  commands,
  type DecorationOptions,
  Disposable,
  MarkdownString,
  type Position,
  type Progress,
  ProgressLocation,
  Range,
  type TextDocument,
  type TextEditor,
  ThemeColor,
  window,
} from "vscode";
import type { EditProgress, ShownHunk } from "./protocol";

const goes = window.createTextEditorDecorationType({
  backgroundColor: new ThemeColor("diffEditor.removedTextBackground"),
});
const comes = window.createTextEditorDecorationType({
  after: {
    backgroundColor: new ThemeColor("diffEditor.insertedTextBackground"),
    color: new ThemeColor("editorGhostText.foreground"),
    margin: "0 0 0 1ch",
  },
});

interface Making {
  /** What was told last; nothing at first. */
  edit?: EditProgress;
  report: Progress<{ message: string }>;
}

export class Edits implements Disposable {
  private readonly inTheMaking = new Map<string, Making>();
  private readonly listening = Disposable.from(
    window.onDidChangeVisibleTextEditors(() => this.draw()),
    window.onDidChangeActiveTextEditor(() => this.tell()),
  );

  has(uri: string): boolean {
    return this.inTheMaking.has(uri);
  }

  /** Whatever becomes of the work, its hunks are gone when it is over. */
  async during(uri: string, work: () => Promise<void>): Promise<void> {
    await window.withProgress({ location: ProgressLocation.Window, title: "Vivace" }, async (report) => {
      this.inTheMaking.set(uri, { report });
      this.tell();
      try {
        await work();
      } finally {
        this.inTheMaking.delete(uri);
        this.tell();
        this.draw();
      }
    });
  }

  show(edit: EditProgress): void {
    const making = this.inTheMaking.get(edit.uri);
    if (!making) return;
    making.edit = edit;
    making.report.report({ message: edit.message });
    this.draw();
  }

  clear(): void {
    this.inTheMaking.clear();
    this.tell();
    this.draw();
  }

  dispose(): void {
    this.clear();
    this.listening.dispose();
  }

  /** Esc and the commands ask for this. */
  private tell(): void {
    const active = window.activeTextEditor?.document.uri.toString();
    void commands.executeCommand("setContext", "vivace.editing", active !== undefined && this.has(active));
  }

  private draw(): void {
    for (const editor of window.visibleTextEditors) {
      const edit = this.inTheMaking.get(editor.document.uri.toString())?.edit;
      const hunks = !edit || edit.done ? [] : edit.hunks;
      // The editor carries along what is drawn; places of an older text would be wrong ones.
      if (hunks.length && edit?.version !== editor.document.version) continue;
      editor.setDecorations(goes, hunks.map(rangeOf).filter((range) => !range.isEmpty));
      editor.setDecorations(comes, hunks.filter((hunk) => hunk.newText).map((hunk) => inserted(editor, hunk)));
    }
  }
}

function rangeOf({ range: { start, end } }: ShownHunk): Range {
  return new Range(start.line, start.character, end.line, end.character);
}

/** The editor draws single lines only: the first of what comes stands there, all of it in the hover. */
function inserted({ document }: TextEditor, hunk: ShownHunk): DecorationOptions {
  const lines = hunk.newText.split(/\r\n|\r|\n/).filter((text) => text.trim());
  const more = lines.length > 1 ? `  … +${lines.length - 1}` : "";
  const place = placeOf(hunk, document);
  return {
    range: new Range(place, place),
    hoverMessage: new MarkdownString().appendCodeblock(hunk.newText, document.languageId),
    renderOptions: { after: { contentText: `${lines[0]?.trim() ?? "⏎"}${more}` } },
  };
}

/** Right behind what goes, within a line; else behind the last line of it. */
function placeOf(hunk: ShownHunk, document: TextDocument): Position {
  const range = rangeOf(hunk);
  if (range.isSingleLine && !/[\r\n]/.test(hunk.newText)) return range.end;
  const wholeLines = range.end.character === 0 && range.end.line > 0;
  return document.lineAt(range.end.line - (wholeLines ? 1 : 0)).range.end;
}
