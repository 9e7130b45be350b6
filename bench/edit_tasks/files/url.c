/*
 * url.c - split and rebuild URLs for the downloader.
 *
 * Handles scheme://host[:port][/path]. There are no user names and no IPv6
 * addresses in the URLs we download from.
 */

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct url {
    char scheme[8];
    char host[256];
    char path[1024];
    int port;
};

/* Copy length bytes and terminate them; false if they do not fit. */
static bool copy_part(char *to, size_t size, const char *from, size_t length)
{
    if (length > size)
        return false;
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

static void lowercase(char *text)
{
    for (; *text != '\0'; text++)
        *text = (char)tolower((unsigned char)*text);
}

int default_port(const char *scheme)
{
    if (strcmp(scheme, "http") == 0)
        return 80;
    if (strcmp(scheme, "https") == 0)
        return 443;
    return -1;
}

/* The number at the start of the text, or -1 if it is no port. */
int parse_port(const char *s)
{
    char *end;
    long port = strtol(s, &end, 10);

    if (end == s || port < 1 || port > 65535)
        return -1;
    return (int)port;
}

bool url_parse(struct url *url, const char *text)
{
    const char *host = strstr(text, "://");
    if (host == NULL)
        return false;
    if (!copy_part(url->scheme, sizeof url->scheme, text, (size_t)(host - text)))
        return false;
    lowercase(url->scheme);

    host += 3;
    size_t length = strcspn(host, ":/");
    if (length == 0 || !copy_part(url->host, sizeof url->host, host, length))
        return false;
    lowercase(url->host);

    const char *rest = host + length;
    url->port = *rest == ':' ? parse_port(rest + 1) : default_port(url->scheme);
    rest += strcspn(rest, "/");
    if (*rest == '\0')
        rest = "/";
    return url->port != -1 && copy_part(url->path, sizeof url->path, rest, strlen(rest));
}

/* The name to save the download under. */
const char *url_file_name(const struct url *url)
{
    const char *slash = strrchr(url->path, '/');
    if (slash != NULL) {
        if (slash[1] != '\0') {
            return slash + 1;
        } else {
            return "index.html";
        }
    } else {
        return "index.html";
    }
}

/* The caller frees the result. */
char *url_format(const struct url *url)
{
    size_t size = strlen(url->scheme) + strlen(url->host) + strlen(url->path) + 16;
    char *text = malloc(size);
    if (url->port == default_port(url->scheme))
        snprintf(text, size, "%s://%s%s", url->scheme, url->host, url->path);
    else
        snprintf(text, size, "%s://%s:%d%s", url->scheme, url->host, url->port, url->path);
    return text;
}
