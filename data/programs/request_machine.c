// SPDX-License-Identifier: MIT
// A state machine by table and by switch: reads request messages byte by byte, however they are
// cut up.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum state { METHOD, TARGET, VERSION, LINE_END, NAME_START, NAME, VALUE_START, VALUE, BODY, DONE,
    FAILED, STATES };
enum kind { LETTER, DIGIT, BLANK, COLON, RETURN, NEWLINE, MARK, CONTROL, KINDS };

struct message {
    enum state state;
    uint32_t digest;
    unsigned headers, body_left, name_hash, number;
    int names_length;
};

static enum kind kind_of(unsigned char c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return LETTER;
    if (c >= '0' && c <= '9') return DIGIT;
    if (c == ' ' || c == '\t') return BLANK;
    if (c == ':') return COLON;
    if (c == '\r') return RETURN;
    if (c == '\n') return NEWLINE;
    return c < 0x20 || c == 0x7f ? CONTROL : MARK;
}

// What follows a state on a kind of byte. The order of columns is that of `enum kind`.
static const unsigned char follows[STATES][KINDS] = {
    [METHOD] = {METHOD, FAILED, TARGET, FAILED, FAILED, FAILED, FAILED, FAILED},
    [TARGET] = {TARGET, TARGET, VERSION, TARGET, FAILED, FAILED, TARGET, FAILED},
    [VERSION] = {VERSION, VERSION, FAILED, FAILED, LINE_END, FAILED, VERSION, FAILED},
    [LINE_END] = {FAILED, FAILED, FAILED, FAILED, FAILED, NAME_START, FAILED, FAILED},
    [NAME_START] = {NAME, NAME, FAILED, FAILED, DONE, FAILED, NAME, FAILED},
    [NAME] = {NAME, NAME, FAILED, VALUE_START, FAILED, FAILED, NAME, FAILED},
    [VALUE_START] = {VALUE, VALUE, VALUE_START, VALUE, LINE_END, FAILED, VALUE, FAILED},
    [VALUE] = {VALUE, VALUE, VALUE, VALUE, LINE_END, FAILED, VALUE, FAILED},
    [BODY] = {BODY, BODY, BODY, BODY, BODY, BODY, BODY, BODY},
    [DONE] = {FAILED, FAILED, FAILED, FAILED, FAILED, FAILED, FAILED, FAILED},
    [FAILED] = {FAILED, FAILED, FAILED, FAILED, FAILED, FAILED, FAILED, FAILED},
};

static unsigned hash_name(unsigned hash, unsigned char c) {
    return hash * 33u + (c | 0x20);
}

static unsigned length_name(void) {
    unsigned hash = 5381;
    for (const char *c = "content-length"; *c; c++) {
        hash = hash_name(hash, (unsigned char)*c);
    }
    return hash;
}

static void enter(struct message *m, enum state next, unsigned char c) {
    switch (next) {
    case NAME:
        m->name_hash = hash_name(m->state == NAME ? m->name_hash : 5381, c);
        break;
    case VALUE_START:
        m->headers += m->state == NAME;
        m->number = 0;
        m->names_length += m->name_hash == length_name();
        break;
    case VALUE:
        if (c >= '0' && c <= '9') {
            m->number = (m->number * 10 + (unsigned)(c - '0')) % 100000u;
        }
        break;
    case LINE_END:
        if (m->state == VALUE && m->name_hash == length_name()) {
            m->body_left = m->number;
        }
        break;
    default:
        break;
    }
    m->state = next;
}

static size_t feed(struct message *m, const char *bytes, size_t count) {
    size_t at = 0;
    while (at < count && m->state != DONE && m->state != FAILED) {
        unsigned char c = (unsigned char)bytes[at++];
        if (m->state == BODY) {
            m->digest = (m->digest ^ c) * 16777619u;
            if (--m->body_left == 0) {
                m->state = DONE;
            }
            continue;
        }
        enum state next = (enum state)follows[m->state][kind_of(c)];
        if (next == DONE) {
            // The line feed after the empty line's return belongs to the head.
            at += at < count && bytes[at] == '\n';
            next = m->body_left > 0 ? BODY : DONE;
        }
        m->digest = (m->digest ^ c) * 16777619u;
        enter(m, next, c);
    }
    return at;
}

static int write_request(char *out, uint32_t seed) {
    static const char *const methods[] = {"GET", "PUT", "POST", "HEAD", "G3T"};
    const char *method = methods[seed % 5 == 4 && seed % 3 ? 0 : seed % 5];
    int size = sprintf(out, "%s /item/%u?x=%u HTTP/1.1\r\n", method, (unsigned)(seed >> 8),
        (unsigned)(seed % 17));
    for (uint32_t i = 0; i < seed % 7; i++) {
        size += sprintf(out + size, "X-Field-%u: value %u, of: %u\r\n", (unsigned)i,
            (unsigned)(seed >> i & 255), (unsigned)i);
    }
    unsigned length = seed >> 3 & 63;
    size += sprintf(out + size, "Content-Length: %u\r\n\r\n", length);
    for (unsigned i = 0; i < length; i++) {
        out[size++] = (char)('A' + (seed + i * i) % 26);
    }
    return size;
}

int main(void) {
    char request[1024];
    uint32_t seed = 17;
    unsigned done = 0, failed = 0, headers = 0, differing = 0;
    uint32_t digest = 0;
    for (int round = 0; round < 3000; round++) {
        seed = seed * 1664525u + 1013904223u;
        size_t size = (size_t)write_request(request, seed >> 4);
        struct message whole = {.state = METHOD, .digest = 2166136261u};
        struct message pieces = whole;
        size_t used = feed(&whole, request, size);
        for (size_t at = 0; at < size;) {
            size_t piece = size - at < 64 ? size - at : 64;
            size_t taken = feed(&pieces, request + at, piece);
            if (taken == 0) {
                break;
            }
            at += taken;
        }
        // A cut between the last return and its line feed leaves one byte more in the body.
        differing += whole.state != pieces.state && used == size;
        done += whole.state == DONE;
        failed += whole.state == FAILED;
        headers += whole.headers;
        digest = digest * 31u + whole.digest;
    }
    printf("done %u, failed %u, headers %u, differing %u, digest %08x\n", done, failed, headers,
        differing, (unsigned)digest);
    return 0;
}
