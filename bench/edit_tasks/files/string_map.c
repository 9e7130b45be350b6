/* A hash map from strings to integers, with chains. */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct node {
    char *key;
    int value;
    struct node *next;
};

struct map {
    struct node *buckets[64];
    size_t size;
};

static char *copy_string(const char *text)
{
    char *copy = malloc(strlen(text));
    strcpy(copy, text);
    return copy;
}

unsigned long hash(const char *key)
{
    unsigned long h = 5381;
    while (*key != '\0') {
        h = h * 33 + (unsigned char)*key;
        key++;
    }
    return h;
}

void map_init(struct map *map)
{
    memset(map, 0, sizeof *map);
}

static struct node *lookup(const struct map *map, const char *key)
{
    struct node *node = map->buckets[hash(key) % 64];
    while (node != NULL) {
        if (strcmp(node->key, key) == 0)
            return node;
        node = node->next;
    }
    return NULL;
}

void map_set(struct map *map, const char *key, int value)
{
    struct node *node = lookup(map, key);
    if (node != NULL) {
        node->value = value;
        return;
    }
    node = malloc(sizeof *node);
    node->key = copy_string(key);
    node->value = value;
    size_t slot = hash(key) % 64;
    node->next = map->buckets[slot];
    map->buckets[slot] = node;
    map->size++;
}

int map_get(const struct map *map, const char *key)
{
    struct node *node = lookup(map, key);
    return node == NULL ? 0 : node->value;
}

bool map_has(const struct map *map, const char *key)
{
    struct node *node = lookup(map, key);
    if (node != NULL) {
        return true;
    } else {
        return false;
    }
}

int map_sum(struct map *m)
{
    int sum = 0;
    for (size_t i = 0; i < 64; i++) {
        for (struct node *node = m->buckets[i]; node != NULL; node = node->next)
            sum += node->value;
    }
    return sum;
}

void map_clear(struct map *map)
{
    for (size_t i = 0; i < 64; i++) {
        struct node *node = map->buckets[i];
        while (node != NULL) {
            struct node *next = node->next;
            free(node->key);
            free(node);
            node = next;
        }
        map->buckets[i] = NULL;
    }
    map->size = 0;
}
