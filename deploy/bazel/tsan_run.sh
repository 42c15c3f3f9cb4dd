#!/bin/sh
# Runs a test that was built with ThreadSanitizer.
#
# The run-time library of clang 14 stops with "unexpected memory mapping" where
# the kernel randomises more address bits than it knows (vm.mmap_rnd_bits > 28,
# the default of several recent kernels), so the layout is not randomised at all.
# Containers often forbid that call; the test then runs as it is.
if setarch -R true 2>/dev/null; then
  exec setarch -R "$@"
fi
exec "$@"
