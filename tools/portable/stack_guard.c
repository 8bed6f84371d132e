// The number that guards stacks on ARM. The compiler's own library, which is linked in, has a
// constant; this one differs from process to process, as that of the C library does.
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

__attribute__((visibility("hidden"))) uintptr_t __stack_chk_guard = 1;

// Runs before every other code of the library: no function that checks the number may be under way.
__attribute__((constructor(101), no_stack_protector)) static void MakeGuard(void) {
  const void* random = (const void*)getauxval(AT_RANDOM);
  uintptr_t guard = (uintptr_t)&__stack_chk_guard;
  if (random != NULL) memcpy(&guard, random, sizeof guard);
  __stack_chk_guard = guard & ~(uintptr_t)0xff;  // the zero ends every text that runs over
}
