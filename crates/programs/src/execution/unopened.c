// Stands before the C library in a run of a program, and writes down which files the program could
// not open: one name a line, into the file that STEPLAKE_UNOPENED names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char *path, int is_open) {
    int before = errno;
    const char *list = getenv("STEPLAKE_UNOPENED");
    int is_barred = before == ENOENT || before == EACCES || before == EPERM;
    if (!is_open && is_barred && path && list) {
        // Not by the functions below, which would come back here.
        int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
        int file = (int)syscall(SYS_openat, AT_FDCWD, list, flags, 0600);
        if (file >= 0) {
            if (write(file, path, strlen(path)) < 0 || write(file, "\n", 1) < 0) {
                // Then it is not known.
            }
            close(file);
        }
    }
    errno = before;
}

#define STREAM(NAME)                                                        \
    FILE *NAME(const char *path, const char *mode) {                        \
        FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, #NAME); \
        FILE *stream = next(path, mode);                                    \
        note(path, stream != NULL);                                         \
        return stream;                                                      \
    }
STREAM(fopen)
STREAM(fopen64)

static int mode_of(int flags, va_list more) {
    int is_made = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    return is_made ? va_arg(more, int) : 0;
}

#define FILE_NUMBER(NAME)                                      \
    int NAME(const char *path, int flags, ...) {               \
        int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, #NAME); \
        va_list more;                                          \
        va_start(more, flags);                                 \
        int file = next(path, flags, mode_of(flags, more));    \
        va_end(more);                                          \
        note(path, file >= 0);                                 \
        return file;                                           \
    }
FILE_NUMBER(open)
FILE_NUMBER(open64)

#define FILE_NUMBER_AT(NAME)                                            \
    int NAME(int folder, const char *path, int flags, ...) {            \
        int (*next)(int, const char *, int, ...) = dlsym(RTLD_NEXT, #NAME); \
        va_list more;                                                   \
        va_start(more, flags);                                          \
        int file = next(folder, path, flags, mode_of(flags, more));     \
        va_end(more);                                                   \
        note(path, file >= 0);                                          \
        return file;                                                    \
    }
FILE_NUMBER_AT(openat)
FILE_NUMBER_AT(openat64)
