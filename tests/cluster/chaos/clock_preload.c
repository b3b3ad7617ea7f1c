/* Adds an offset to the wall clock of the process that preloads it. The steady clocks are left alone.
 *
 * CHAOS_CLOCK names a file of one int64: the offset in nanoseconds, in effect at once when it changes.
 * libfaketime does not do for this: it takes absolute sleeps on the steady clock for wall time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static const volatile int64_t no_offset;
static const volatile int64_t *offset_ns = &no_offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) offset_ns = mapped;
}

static int64_t wall_ns(clockid_t clock) {
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec + *offset_ns;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, now);
    int64_t found = wall_ns(clock);
    now->tv_sec = found / SECOND_NS;
    now->tv_nsec = found % SECOND_NS;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    int64_t found = wall_ns(CLOCK_REALTIME);
    now->tv_sec = found / SECOND_NS;
    now->tv_usec = found % SECOND_NS / 1000;
    return 0;
}

time_t time(time_t *now) {
    time_t found = wall_ns(CLOCK_REALTIME) / SECOND_NS;
    if (now) *now = found;
    return found;
}
