/** The cart of a small shop. Prices are in cents. */

export interface Product {
  id: string;
  name: string;
  price: number;
}

export interface Line {
  product: Product;
  quantity: number;
}

export class Cart {
  lines: Line[] = [];
  private coupon: string | null = null;

  add(product: Product, quantity: number) {
    const line = this.lines.find((l) => l.product.id === product.id);
    if (line) {
      line.quantity += quantity;
    } else {
      this.lines.push({ product, quantity });
    }
  }

  remove(productId: string): boolean {
    const before = this.lines.length;
    this.lines = this.lines.filter((line) => line.product.id !== productId);
    return this.lines.length < before;
  }

  applyCoupon(code: string): void {
    this.coupon = code.trim().toUpperCase();
  }

  subtotal(): number {
    let sum = 0;
    for (const line of this.lines) {
      sum += line.product.price * line.quantity;
    }
    return sum;
  }

  discount(): number {
    if (this.coupon === "SPRING") {
      return Math.round(this.subtotal() * 0.15);
    }
    return 0;
  }

  shipping(): number {
    return this.subtotal() > 5000 ? 0 : 490;
  }

  calcTotal(): number {
    return this.subtotal() - this.discount() + this.shipping();
  }

  summary(): string {
    return this.lines.length + " products, " + formatPrice(this.calcTotal());
  }
}

export function formatPrice(cents: number): string {
  return "$" + (cents / 100).toFixed(2);
}

export function expensive(products: Product[], limit: number): string[] {
  const names: string[] = [];
  for (const product of products) {
    if (product.price >= limit) {
      names.push(product.name);
    }
  }
  return names;
}

export function parseQuantity(text: string): number {
  const value = Number.parseInt(text, 10);
  return value;
}

export function receipt(cart: Cart): string {
  const rows = cart.lines.map((line) => `${line.quantity} x ${line.product.name}`);
  rows.push("total " + formatPrice(cart.calcTotal()));
  return rows.join("\n");
}
