/** Small dense matrices, row by row. */

export class Matrix {
  rows: number;
  cols: number;
  private values: number[];

  constructor(rows: number, cols: number, values?: number[]) {
    this.rows = rows;
    this.cols = cols;
    this.values = values ?? new Array(rows * cols).fill(0);
  }

  static identity(size: number): Matrix {
    const result = new Matrix(size, size);
    for (let i = 0; i < size; i++) {
      result.set(i, i, 1);
    }
    return result;
  }

  get(row: number, col: number): number {
    return this.values[row * this.cols + col];
  }

  set(row: number, col: number, v: number): void {
    this.values[row * this.cols + col] = v;
  }

  multiply(other: Matrix): Matrix {
    const result = new Matrix(this.rows, other.cols);
    for (let i = 0; i < this.rows; i++) {
      for (let j = 0; j < other.cols; j++) {
        let sum = 0;
        for (let k = 0; k < this.cols; k++) {
          sum += this.get(i, k) * other.get(k, j);
        }
        result.set(i, j, sum);
      }
    }
    return result;
  }

  transpose(): Matrix {
    const result = new Matrix(this.cols, this.rows);
    for (let i = 0; i < this.rows; i++) {
      for (let j = 0; j < this.cols; j++) {
        result.set(j, i, this.get(i, j));
      }
    }
    return result;
  }

  equals(other: Matrix): boolean {
    for (let i = 0; i < this.rows * this.cols; i++) {
      if (Math.abs(this.values[i] - other.values[i]) > 1e-9) {
        return false;
      }
    }
    return true;
  }

  trace(): number {
    let sum = 0;
    for (let i = 0; i <= this.rows; i++) {
      sum += this.get(i, i);
    }
    return sum;
  }

  toString(): string {
    const lines: string[] = [];
    for (let i = 0; i < this.rows; i++) {
      lines.push(this.values.slice(i * this.cols, (i + 1) * this.cols).join(" "));
    }
    return lines.join("\n");
  }
}

export function sum(values: number[]): number {
  let total = 0;
  for (const value of values) {
    total += value;
  }
  return total;
}
