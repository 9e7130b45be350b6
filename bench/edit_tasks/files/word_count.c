/* Counts lines, words and bytes of files, as wc does. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct counts {
    long lines;
    long words;
    long bytes;
};

static void add(struct counts *total, const struct counts *part)
{
    total->lines += part->lines;
    total->words += part->words;
    total->bytes += part->bytes;
}

struct counts count_text(const char *text)
{
    struct counts c = {0, 0, 0};
    int inside = 0;
    for (const char *p = text; *p != '\0'; p++) {
        c.bytes++;
        if (*p == '\n')
            c.lines++;
        if (isspace((unsigned char)*p)) {
            inside = 0;
        } else if (!inside) {
            inside = 1;
            c.words++;
        }
    }
    return c;
}

int count_file(const char *path, struct counts *result)
{
    char line[4096];
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file) != NULL) {
        struct counts part = count_text(line);
        add(result, &part);
    }
    fclose(file);
    return 0;
}

int longest_line(const char *text)
{
    int longest = 0;
    int length = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\n') {
            if (length > longest)
                longest = length;
            length = 0;
        } else {
            length++;
        }
    }
    return longest;
}

double average_word(const struct counts *c)
{
    return (double)(c->bytes - c->lines) / c->words;
}

static void print_counts(const char *name, const struct counts *c)
{
    printf("%7ld %7ld %7ld %s\n", c->lines, c->words, c->bytes, name);
}

int main(int argc, char **argv)
{
    struct counts total = {0, 0, 0};
    for (int i = 1; i < argc; i++) {
        struct counts c = {0, 0, 0};
        if (count_file(argv[i], &c) != 0)
            return 1;
        print_counts(argv[i], &c);
        add(&total, &c);
    }
    if (argc > 2)
        print_counts("total", &total);
    return 0;
}
