"""Helpers for text: slugs, wrapping, counting."""

import re
import unicodedata

STOP_WORDS = {"a", "an", "and", "of", "or", "the", "to"}


def slugify(text, separator="-"):
    """Lower case words joined by the separator, without accents or punctuation."""
    plain = unicodedata.normalize("NFKD", text)
    plain = plain.encode("ascii", "ignore").decode("ascii")
    words = re.findall(r"[a-z0-9]+", plain.lower())
    return separator.join(words)


def truncate(text, width, suffix):
    if len(text) <= width:
        return text
    return text[: width - len(suffix)].rstrip() + suffix


def word_counts(text):
    d = {}
    for word in re.findall(r"\w+", text.lower()):
        if word in STOP_WORDS:
            continue
        d[word] = d.get(word, 0) + 1
    return d


def most_common(text, n):
    counts = word_counts(text)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [word for word, _ in ranked[:n]]


def long_words(text, minimum=8):
    result = []
    for word in text.split():
        if len(word) >= minimum:
            result.append(word)
    return result


def wrap(text, width):
    lines = []
    line = ""
    for word in text.split():
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line = line + " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def indent(text, prefix="    "):
    return "\n".join(prefix + line if line else line for line in text.split("\n"))


def title(text):
    words = text.split()
    result = []
    for place, word in enumerate(words):
        if place > 0 and word.lower() in STOP_WORDS:
            result.append(word.lower())
        else:
            result.append(word[:1].upper() + word[1:])
    return " ".join(result)


def is_palindrome(text):
    letters = [c for c in text.lower() if c.isalnum()]
    if letters == letters[::-1]:
        return True
    else:
        return False


def greet(name, count):
    return "Hello " + name + ", you have " + str(count) + " new messages"
