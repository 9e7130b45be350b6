// Validation rules for the sign-up form. A rule looks at one field and returns
// a message, or null if there is nothing to complain about.

export type Values = Record<string, string>;
export type Rule = (value: string, values: Values) => string | null;

export interface Problem {
  field: string;
  message: string;
}

const EMAIL = /^[^@\s]+@[^@\s]+\.[^@\s]+$/;

export function required(value: string): string | null {
  return value.trim() === "" ? "is required" : null;
}

export function email(value: string): string | null {
  return EMAIL.test(value) ? null : "is not an e-mail address";
}

export function minLength(length: number): Rule {
  return (value) =>
    value.length < length ? `needs at least ${length} characters` : null;
}

export function sameAs(other: string): Rule {
  return (value, values) =>
    value === values[other] ? null : `does not match ${other}`;
}

export class FormValidator {
  private rules = new Map<string, Rule[]>();

  /** Rules are tried in the order they were added. */
  addRule(field: string, ...rules: Rule[]): this {
    const before = this.rules.get(field) ?? [];
    this.rules.set(field, [...before, ...rules]);
    return this;
  }

  /** At most one problem per field: the first rule that fails. */
  validate(values: Values): Problem[] {
    const problems: Problem[] = [];
    for (const [field, rules] of this.rules) {
      for (const rule of rules) {
        const message = rule(values[field] ?? "", values);
        if (message !== null) {
          problems.push({ field, message });
          break;
        }
      }
    }
    return problems;
  }

  isValid(values: Values): boolean {
    return this.validate(values).length === 0;
  }
}

export function signUpForm(): FormValidator {
  return new FormValidator()
    .addRule("name", required)
    .addRule("email", required, email)
    .addRule("password", required, minLength(8))
    .addRule("repeat", sameAs("password"));
}

export function firstProblem(problems: Problem[], field: string): string | undefined {
  for (const problem of problems) {
    if (problem.field === field) {
      return problem.message;
    }
  }
  return undefined;
}

/** What the user had typed before the page was left, from local storage. */
export function loadDraft(stored: string | null): Values {
  if (stored === null) {
    return {};
  }
  return JSON.parse(stored);
}

export function saveDraft(values: Values): string {
  const { password, repeat, ...harmless } = values;
  return JSON.stringify(harmless);
}
