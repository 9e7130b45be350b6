"""Half-open intervals of whole numbers: the start belongs to them, the end does not."""


class Interval:
    def __init__(self, start, end):
        self.start = start
        self.end = end

    def __eq__(self, other):
        return (self.start, self.end) == (other.start, other.end)

    def __repr__(self):
        return "Interval({}, {})".format(self.start, self.end)

    def length(self):
        return self.end - self.start

    def contains(self, point):
        return self.start <= point <= self.end

    def overlaps(self, other):
        return self.start < other.end and other.start < self.end

    def intersection(self, other):
        start = max(self.start, other.start)
        end = min(self.end, other.end)
        if start < end:
            return Interval(start, end)
        else:
            return None

    def shift(self, amount):
        return Interval(self.start + amount, self.end + amount)


def merge(intervals):
    """Joins intervals that overlap or touch."""
    merged = []
    for interval in sorted(intervals, key=lambda i: i.start):
        if merged and interval.start <= merged[-1].end:
            last = merged[-1]
            merged[-1] = Interval(last.start, max(last.end, interval.end))
        else:
            merged.append(interval)
    return merged


def total_length(intervals):
    total = 0
    for interval in merge(intervals):
        total += interval.length()
    return total


def any_contains(intervals, point):
    for interval in intervals:
        if interval.start <= point < interval.end:
            return True
    return False


def gaps(intervals):
    result = []
    merged = merge(intervals)
    for left, right in zip(merged, merged[1:]):
        result.append(Interval(left.end, right.start))
    return result


def parse_interval(text):
    start, end = text.split("-")
    return Interval(int(start), int(end))
