/* Debian 12's Python for an older glibc: its archive, and the two functions that the glibc lacks.
 */
#define _GNU_SOURCE
#include <Python.h>
#include <errno.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int close_range(unsigned first, unsigned last, int flags) {
  return (int)syscall(SYS_close_range, first, last, flags);
}

/* The deadline of another clock becomes one of the clock that sem_timedwait knows. */
int sem_clockwait(sem_t* semaphore, clockid_t clock, const struct timespec* deadline) {
  struct timespec now, until;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += deadline->tv_sec - now.tv_sec;
  until.tv_nsec += deadline->tv_nsec - now.tv_nsec;
  if (until.tv_nsec < 0) until.tv_sec -= 1, until.tv_nsec += 1000000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec += 1, until.tv_nsec -= 1000000000;
  return sem_timedwait(semaphore, &until);
}

int main(int argc, char** argv) { return Py_BytesMain(argc, argv); }
