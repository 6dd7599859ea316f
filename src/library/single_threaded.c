/* Debian's static libraries are made for programs: they reach for this flag of glibc's, which says that reference
 * counts need no atomic steps, as only a program may. The library has one of its own, which says that they do: right
 * in every process. Hidden, so that nobody else sees it. */
extern char __libc_single_threaded;
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
