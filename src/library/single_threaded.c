/* Debian's static libraries are built for programs: they use glibc's flag __libc_single_threaded, which may say
 * that reference counts need no atomic operations, as is only valid in a program. The library defines its own
 * flag, which always says that they do: correct in every process. Hidden, so that no other library sees it. */
extern char __libc_single_threaded;
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
