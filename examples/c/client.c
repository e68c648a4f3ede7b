// A gateway client in C: prints every event as one line of JSON, and resumes after a lost connection. See ../README.md.
//     cc -O2 -Wall -Wextra -o client client.c -lzstd && TOKEN='…' ./client 127.0.0.1 8080
#define _GNU_SOURCE
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

enum { WINDOW_LOG_MAX = 21, MESSAGE_BYTES_MAX = 64 << 20, DICTIONARY_BYTES_MAX = 1 << 20 };
enum { TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10, LOST = -1, TIMED_OUT = -2 }; // opcodes, and their absence

#define IDENTIFY "{\"op\":2,\"d\":{\"token\":\"%s\",\"intents\":33281,\"properties\":{\"os\":\"\",\"browser\":\"\"}}}"
#define RESUME "{\"op\":6,\"d\":{\"token\":\"%s\",\"session_id\":\"%s\",\"seq\":%ld}}"
struct bytes { char *data; size_t size, capacity; };
struct session { char id[128], host[256], port[8]; long seq; };

static const char *host, *port, *token, *dict_id;
static struct bytes dictionary, input, output; // input: read from the socket; output: an inflated payload

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}
static void stop(const char *reason) { fprintf(stderr, "client: %s\n", reason), exit(1); }
static void reserve(struct bytes *b, size_t more) {
    if (b->size + more <= b->capacity) return;
    b->capacity = 2 * (b->size + more);
    if (b->size > MESSAGE_BYTES_MAX || !(b->data = realloc(b->data, b->capacity))) stop("a message is too large");
}

static ssize_t read_some(int fd, struct bytes *in) {
    reserve(in, 65536);
    ssize_t got = recv(fd, in->data + in->size, 65535, 0);
    if (got > 0) in->size += (size_t)got;
    return got;
}

// Sends a GET, and reads until the header of its answer is complete. Returns the size of the header, or 0.
static size_t request(int fd, struct bytes *in, const char *path, const char *headers, const char *status) {
    char text[1024];
    int size = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s:%s\r\n%s\r\n", path, host, port, headers);
    if (send(fd, text, (size_t)size, MSG_NOSIGNAL) != size) return 0;
    for (char *end; read_some(fd, in) > 0;)
        if ((end = memmem(in->data, in->size, "\r\n\r\n", 4)))
            return strncmp(in->data, status, strlen(status)) ? 0 : (size_t)(end + 4 - in->data);
    return 0;
}

static int dial(const char *to_host, const char *to_port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(to_host, to_port, &hints, &found)) return LOST;
    int fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (connect(fd, found->ai_addr, found->ai_addrlen)) close(fd), fd = LOST;
    freeaddrinfo(found);
    return fd;
}

// A dictionary is named by its content, so an app may keep it for ever.
static void fetch_dictionary(void) {
    char path[128];
    snprintf(path, sizeof path, "/dictionaries/%s", dict_id);
    int fd = dial(host, port);
    size_t header = request(fd, &dictionary, path, "Connection: close\r\n", "HTTP/1.1 200");
    if (!header) stop("the node does not serve this dictionary; GET /dictionaries lists those that it serves");
    while (dictionary.size < DICTIONARY_BYTES_MAX && read_some(fd, &dictionary) > 0) {}
    close(fd);
    memmove(dictionary.data, dictionary.data + header, dictionary.size -= header);
}

static int send_frame(int fd, int opcode, const char *payload) {
    unsigned char frame[1024];
    size_t size = strlen(payload), at = size < 126 ? 2 : 4;
    if (size > sizeof frame - 8) stop("the token is too long");
    memcpy(frame, (unsigned char[]){0x80 | opcode, 0x80 | (size < 126 ? size : 126), size >> 8, size}, 4);
    if (getentropy(frame + at, 4)) stop("no random bytes");
    for (size_t i = 0; i < size; i++) frame[at + 4 + i] = (unsigned char)payload[i] ^ frame[at + i % 4];
    return send(fd, frame, at + 4 + size, MSG_NOSIGNAL) == (ssize_t)(at + 4 + size) ? 0 : LOST;
}

// The opcode of the next frame, which begins at `*at` in the input; its payload is valid until the next call.
static int receive_frame(int fd, long long until_ms, size_t *at, unsigned char **payload, size_t *size) {
    memmove(input.data, input.data + *at, input.size -= *at);
    for (*at = 0;;) {
        unsigned char *f = (unsigned char *)input.data;
        size_t length = input.size < 2 ? 0 : f[1], header = length < 126 ? 2 : length == 126 ? 4 : 10;
        if (header > 2 && input.size >= header)
            for (size_t i = length = 0; i < header - 2; i++) length = length << 8 | f[2 + i];
        if (length > MESSAGE_BYTES_MAX) return LOST;
        if (input.size >= header + length) {
            *at = header + length, *payload = f + header, *size = length;
            return f[0] & 15;
        }
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        long long left = until_ms - now_ms();
        if (left <= 0 || poll(&readable, 1, (int)left) == 0) return TIMED_OUT;
        if (read_some(fd, &input) <= 0) return LOST;
    }
}

// A binary message is one piece of the connection's zstd stream, and inflates to one whole payload.
static const char *inflate(ZSTD_DCtx *stream, const void *piece, size_t size) {
    ZSTD_inBuffer in = {piece, size, 0};
    for (output.size = 0;;) {
        reserve(&output, ZSTD_DStreamOutSize() + 1);
        ZSTD_outBuffer out = {output.data, output.capacity - 1, output.size};
        if (ZSTD_isError(ZSTD_decompressStream(stream, &out, &in))) stop("the stream cannot be inflated");
        output.size = out.pos;
        if (in.pos < in.size || out.pos == out.size) continue; // a full buffer may mean that more is waiting
        output.data[output.size] = 0;
        return output.data;
    }
}

// The value of a member of an object, or "". It does for the envelope; an app has a JSON parser.
static const char *member(const char *object, const char *key) {
    int depth = 0, is_key = 0;
    for (const char *p = object; *p; p++) {
        if (*p == '"') {
            const char *text = ++p;
            while (*p && *p != '"') p += *p == '\\' && p[1] ? 2 : 1;
            size_t size = (size_t)(p - text);
            if (depth == 1 && is_key && size == strlen(key) && !memcmp(text, key, size)) return p + 2;
            if (!*p) break;
            is_key = 0;
        } else if (*p == '{' || *p == '[') is_key = *p == '{', depth++;
        else if ((*p == '}' || *p == ']') && --depth == 0) break;
        else if (*p == ',') is_key = 1;
    }
    return "";
}

// Runs one connection to its end. Returns the code with which the node closed it, or LOST.
static int run(int fd, ZSTD_DCtx *stream, struct session *s) {
    char path[160], text[1000];
    snprintf(path, sizeof path, "/?v=10&encoding=json&compress=zstd-stream%s%s", dict_id ? "&dict=" : "",
             dict_id ? dict_id : "");
    size_t at = request(fd, &input, path, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: Z3VpbGRoYWxsIGNsaWVudA==\r\n", "HTTP/1.1 101"), size;
    long long interval_ms = 0, beat_at_ms = now_ms() + 20000;
    unsigned char *piece;
    for (int is_answered = 1; at;) {
        int opcode = receive_frame(fd, beat_at_ms, &at, &piece, &size);
        if (opcode == LOST || (opcode == TIMED_OUT && (!interval_ms || !is_answered))) return LOST;
        if (opcode == CLOSE) return size >= 2 ? piece[0] << 8 | piece[1] : LOST;
        if (opcode == PING && send_frame(fd, PONG, "")) return LOST;
        if (opcode != BINARY && opcode != TIMED_OUT) continue;
        const char *message = opcode == BINARY ? inflate(stream, piece, size) : "{\"op\":1}";
        const char *d = member(message, "d");
        switch (atoi(member(message, "op"))) {
        case 0: // an event
            s->seq = atol(member(message, "s"));
            if (!strncmp(member(message, "t"), "\"READY\"", 7)) {
                sscanf(member(d, "session_id"), "\"%127[^\"]", s->id);
                if (sscanf(member(d, "resume_gateway_url"), "\"ws://%255[^:/\"]:%7[0-9]", s->host, s->port) != 2)
                    stop("resume_gateway_url is not ws://HOST:PORT; an app has a library for TLS");
            }
            puts(message), fflush(stdout);
            continue;
        case 10: // HELLO: beat at its interval, the first time after a random part of it
            interval_ms = atol(member(d, "heartbeat_interval")), beat_at_ms = now_ms() + rand() % interval_ms;
            snprintf(text, sizeof text, s->id[0] ? RESUME : IDENTIFY, token, s->id, s->seq);
            break;
        case 1: // a heartbeat is due, or the node requests one
            snprintf(text, sizeof text, s->seq ? "{\"op\":1,\"d\":%ld}" : "{\"op\":1,\"d\":null}", s->seq);
            is_answered = 0, beat_at_ms = now_ms() + interval_ms;
            break;
        case 9: s->id[0] = 0, s->seq = 0; return LOST; // the session has ended: identify again
        case 7: return LOST;                           // reconnect, and resume
        case 11: is_answered = 1; continue;
        default: continue;
        }
        if (send_frame(fd, TEXT, text)) return LOST;
    }
    return LOST;
}

int main(int count, char **arguments) {
    if (count != 3 || !(token = getenv("TOKEN"))) stop("usage: TOKEN='…' [DICT=ID] client HOST PORT");
    host = arguments[1], port = arguments[2], srand((unsigned)now_ms());
    if ((dict_id = getenv("DICT"))) fetch_dictionary();
    struct session session = {0};
    for (int delay_ms = 1000;; delay_ms = delay_ms < 30000 ? 2 * delay_ms : 60000) {
        ZSTD_DCtx *stream = ZSTD_createDCtx(); // a new connection is a new stream
        ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
        if (dict_id) ZSTD_DCtx_loadDictionary(stream, dictionary.data, dictionary.size);
        int fd = session.id[0] ? dial(session.host, session.port) : dial(host, port), seq = session.seq;
        int code = run(fd, stream, &session);
        close(fd), ZSTD_freeDCtx(stream), input.size = 0;
        fprintf(stderr, "client: the connection ended (%d)\n", code);
        if (code == 4002 || code == 4004 || (code >= 4010 && code <= 4015)) stop("the node refuses this client");
        if (session.seq != seq) delay_ms = 1000;
        usleep((useconds_t)(delay_ms * (500 + rand() % 1000)));
    }
}
