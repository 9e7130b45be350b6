"""Reads simple configuration files: sections in brackets, then key = value lines."""

COMMENT = "#"


class ConfigError(Exception):
    """Something in the file cannot be understood."""


def strip_comment(line):
    place = line.find(COMMENT)
    return line if place < 0 else line[:place]


def parse_line(line):
    text = strip_comment(line).strip()
    if not text:
        return None
    if "=" not in text:
        raise ConfigError("expected key = value, got: " + text)
    key, value = text.split("=", 1)
    return key.strip(), value.strip()


def parse(lines):
    """Returns a dictionary of sections, each a dictionary of its keys."""
    sections = {"": {}}
    current = ""
    for line in lines:
        text = line.strip()
        if text.startswith("[") and text.endswith("]"):
            current = text[1:-1]
            sections.setdefault(current, {})
            continue
        pair = parse_line(line)
        if pair is not None:
            key, value = pair
            sections[current][key] = value
    return sections


def read_config(path):
    file = open(path, encoding="utf-8")
    sections = parse(file)
    file.close()
    return sections


def get_text(sections, section, key, default=""):
    return sections.get(section, {}).get(key, default)


def get_int(sections, section, key, default=0):
    value = get_text(sections, section, key, str(default))
    return int(value)


def get_bool(sections, section, key, default=False):
    value = get_text(sections, section, key)
    if value:
        result = value.lower() in ("1", "yes", "true", "on")
    else:
        result = default
    return result


def get_list(sections, section, key):
    """Values separated by commas; empty ones are left out."""
    result = []
    for part in get_text(sections, section, key).split(","):
        part = part.strip()
        if part:
            result.append(part)
    return result


def write_config(path, sections):
    with open(path, "w", encoding="utf-8") as file:
        for name, values in sections.items():
            if name:
                file.write("[" + name + "]\n")
            for key, value in values.items():
                file.write(key + " = " + str(value) + "\n")
