"""Stock keeping for a small shop."""

import logging
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass
class Item:
    name: str
    price: float
    quantity: int = 0


class OutOfStock(Exception):
    pass


class Inventory:
    def __init__(self):
        self.items = {}

    def add(self, name, price, quantity=1):
        if name in self.items:
            item = self.items[name]
            item.price = price
            item.quantity += quantity
        else:
            item = Item(name, price, quantity)
            self.items[name] = item
        return item

    def remove(self, name, quantity=1):
        item = self.items[name]
        if item.quantity < quantity:
            raise OutOfStock(name)
        item.quantity -= quantity
        if item.quantity == 0:
            print("out of stock: " + name)
        return item.quantity

    def describe(self, name):
        item = self.items[name]
        return "%s: %d at %.2f each" % (item.name, item.quantity, item.price)

    def total_value(self):
        total = 0
        for item in self.items.values():
            total += item.price * item.quantity
        return total

    def price_with_tax(self, name):
        return round(self.items[name].price * 1.19, 2)

    def cheapest(self):
        result = None
        for item in self.items.values():
            if result is None or item.price < result.price:
                result = item
        return result

    def find(self, text):
        """Items whose name contains the text, ignoring case."""
        found = []
        for item in self.items.values():
            if text.lower() in item.name.lower():
                found.append(item)
        return found

    def low_stock(self, limit=5):
        return [item for item in self.items.values() if item.quantity < limit]


def load_inventory(rows):
    inventory = Inventory()
    for row in rows:
        name, price, quantity = row
        inventory.add(name, float(price), int(quantity))
    return inventory


def print_report(inventory):
    for name in sorted(inventory.items):
        print(inventory.describe(name))
    print("total: %.2f" % inventory.total_value())
