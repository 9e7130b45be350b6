/* A ring buffer of bytes with a fixed capacity. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint8_t *data;
    size_t capacity;
    size_t head;
    size_t count;
} ring_buffer;

ring_buffer *ring_create(size_t capacity)
{
    ring_buffer *ring = malloc(sizeof *ring);
    ring->data = malloc(capacity);
    ring->capacity = capacity;
    ring->head = 0;
    ring->count = 0;
    return ring;
}

void ring_free(ring_buffer *ring)
{
    free(ring->data);
    free(ring);
}

bool ring_full(const ring_buffer *ring)
{
    return ring->count == ring->capacity;
}

size_t ring_space(ring_buffer *ring)
{
    return ring->capacity - ring->count;
}

bool ring_push(ring_buffer *ring, uint8_t byte)
{
    if (!ring_full(ring)) {
        size_t tail = (ring->head + ring->count) % ring->capacity;
        ring->data[tail] = byte;
        ring->count++;
        return true;
    } else {
        return false;
    }
}

bool ring_pop(ring_buffer *ring, uint8_t *byte)
{
    if (ring->count == 0)
        return false;
    *byte = ring->data[ring->head];
    ring->head = (ring->head + 1) % ring->capacity;
    ring->count--;
    return true;
}

size_t ring_write(ring_buffer *ring, const uint8_t *bytes, size_t length)
{
    size_t n = 0;
    while (n < length && ring_push(ring, bytes[n]))
        n++;
    return n;
}

/* The byte at this place from the front, or -1. */
int ring_peek(const ring_buffer *ring, size_t place)
{
    if (place > ring->count)
        return -1;
    return ring->data[(ring->head + place) % ring->capacity];
}

void ring_clear(ring_buffer *ring)
{
    ring->head = 0;
    ring->count = 0;
}
