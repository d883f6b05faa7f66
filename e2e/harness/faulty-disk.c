/* A disk that fails: loaded before the C library, it looks at the file that FAULTY_DISK names whenever the program writes or waits for
 * the disk. If that file says "full", writes fail for want of room; if it says "broken", what was written cannot be made durable.
 * Only files whose names contain ".db" are concerned. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_database(int fd) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length <= 0) return 0;
    name[length] = 0;
    return strstr(name, ".db") != NULL;
}

static int disk_is(const char *state, int fd) {
    const char *control = getenv("FAULTY_DISK");
    if (control == NULL) return 0;
    int file = open(control, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    char text[16] = {0};
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 && strncmp(text, state, strlen(state)) == 0 && is_database(fd);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    if (disk_is("full", fd)) { errno = ENOSPC; return -1; }
    return REAL(pwrite64)(fd, bytes, count, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    if (disk_is("full", fd)) { errno = ENOSPC; return -1; }
    return REAL(pwrite)(fd, bytes, count, offset);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    if (fd > 2 && disk_is("full", fd)) { errno = ENOSPC; return -1; }
    return REAL(write)(fd, bytes, count);
}

int fdatasync(int fd) {
    if (disk_is("broken", fd)) { errno = EIO; return -1; }
    return REAL(fdatasync)(fd);
}

int fsync(int fd) {
    if (disk_is("broken", fd)) { errno = EIO; return -1; }
    return REAL(fsync)(fd);
}
