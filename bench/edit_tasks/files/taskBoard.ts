/** Tasks of a team, and what can be said about them. */

export type Status = "open" | "doing" | "done";

export interface Task {
  id: number;
  title: string;
  status: Status;
  tags: string[];
}

export class Board {
  private tasks: Task[] = [];
  private nextId = 1;

  create(title: string, tags: string[]): Task {
    const task: Task = { id: this.nextId, title, status: "open", tags };
    this.nextId += 1;
    this.tasks.push(task);
    return task;
  }

  find(id: number): Task | undefined {
    return this.tasks.find((t) => t.id === id);
  }

  move(id: number, status: Status): void {
    const task = this.find(id);
    task!.status = status;
  }

  byStatus(status: Status): Task[] {
    return this.tasks.filter((t) => t.status === status);
  }

  progress(): number {
    const done = this.byStatus("done").length;
    return Math.round((done / this.tasks.length) * 100);
  }

  titles(): string[] {
    var result: string[] = [];
    for (var i = 0; i < this.tasks.length; i++) {
      result.push(this.tasks[i].title);
    }
    return result;
  }
}

export function tagCounts(tasks: Task[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const task of tasks) {
    for (const tag of task.tags) {
      counts.set(tag, (counts.get(tag) ?? 0) + 1);
    }
  }
  return counts;
}

export function label(task: Task): string {
  return "#" + task.id + " " + task.title + " (" + task.status + ")";
}

export function load(json: string): Task[] {
  const data = JSON.parse(json);
  return data.tasks;
}

export function sortByTitle(tasks: Task[]): Task[] {
  return [...tasks].sort(function (a, b) {
    return a.title.localeCompare(b.title);
  });
}

export function pageOf(tasks: Task[], page: number): Task[] {
  return tasks.slice((page - 1) * 20, page * 20);
}
