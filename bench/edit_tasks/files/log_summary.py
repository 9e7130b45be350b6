"""Summarises a log file: how many lines of each level, and the slowest requests."""

import sys

LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"]


def read_lines(path):
    with open(path) as file:
        return [line.rstrip("\n") for line in file]


def count_levels(lines):
    counts = dict.fromkeys(LEVELS, 0)
    for line in lines:
        parts = line.split(" ", 2)
        level = parts[1] if len(parts) > 1 else "INFO"
        if level in counts:
            counts[level] += 1
    return counts


def messages_of(lines, level):
    result = []
    for line in lines:
        parts = line.split(" ", 2)
        if len(parts) == 3 and parts[1] == level:
            result.append(parts[2])
    return result


def duration_of(message):
    """Milliseconds from a message such as 'GET /users took 120ms', or None."""
    words = message.split()
    if len(words) >= 2 and words[-2] == "took":
        if words[-1].endswith("ms"):
            return int(words[-1][:-2])
        else:
            return None
    else:
        return None


def slowest(messages, count):
    timed = []
    for message in messages:
        duration = duration_of(message)
        if duration is not None:
            timed.append((duration, message))
    timed.sort(reverse=True)
    return timed[: count - 1]


def format_table(counts):
    rows = []
    for level, count in counts.items():
        rows.append("{:<10}{:>6}".format(level, count))
    return "\n".join(rows)


def share_of_errors(counts):
    total = sum(counts.values())
    return counts["ERROR"] / total


def main(arguments):
    if len(arguments) != 1:
        print("usage: log_summary FILE")
        return 2
    lines = read_lines(arguments[0])
    counts = count_levels(lines)
    print(format_table(counts))
    for duration, message in slowest(messages_of(lines, "INFO"), 5):
        print(duration, message)
    return 1 if counts["ERROR"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
