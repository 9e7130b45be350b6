/**
 * Undo and redo for the document editor.
 *
 * A change is a command that can be applied and reverted. Commands are kept in
 * the order they were applied; undone ones wait on the redo stack.
 */

export interface Command {
  label: string;
  apply(): void;
  revert(): void;
}

type ChangeListener = (history: UndoHistory) => void;

export class UndoHistory {
  private undoStack: Command[] = [];
  private redoStack: Command[] = [];
  private listeners: ChangeListener[] = [];

  constructor(private limit: number = 100) {}

  get canUndo(): boolean {
    return this.undoStack.length > 0;
  }

  get canRedo(): boolean {
    return this.redoStack.length > 0;
  }

  /** Applies a command; whatever was undone before can no longer be redone. */
  run(command: Command): void {
    command.apply();
    this.undoStack.push(command);
    if (this.undoStack.length > this.limit) {
      this.undoStack.shift();
    }
    this.redoStack = [];
    this.notify();
  }

  undo(): boolean {
    const cmd = this.undoStack.pop();
    if (cmd !== undefined) {
      cmd.revert();
      this.redoStack.push(cmd);
      this.notify();
      return true;
    } else {
      return false;
    }
  }

  redo(): boolean {
    const cmd = this.redoStack.pop();
    if (cmd === undefined) {
      return false;
    }
    cmd.apply();
    this.undoStack.push(cmd);
    this.notify();
    return true;
  }

  /** The text of the menu entry. */
  undoLabel(): string {
    const last = this.undoStack[this.undoStack.length - 1];
    return last ? "Undo " + last.label : "Undo";
  }

  redoLabel(): string {
    const next = this.redoStack[0];
    return next ? `Redo ${next.label}` : "Redo";
  }

  clear(): void {
    this.undoStack = [];
    this.redoStack = [];
    this.notify();
  }

  subscribe(listener: ChangeListener): () => void {
    this.listeners.push(listener);
    return () => {
      this.listeners = this.listeners.filter((other) => other !== listener);
    };
  }

  private notify(): void {
    this.listeners.forEach((listener) => listener(this));
  }
}

/** Several commands that are undone as one, e.g. "Replace all". */
export function transaction(label, commands): Command {
  return {
    label,
    apply() {
      commands.forEach((command) => command.apply());
    },
    revert() {
      [...commands].reverse().forEach((command) => command.revert());
    },
  };
}
