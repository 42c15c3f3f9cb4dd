"""Libraries that the system provides."""

def system_cc_library(name, libs = [], static_libs = [], deps = [], **kwargs):
    """A cc_library for what is installed: headers in /usr/include, -l to link.

    Args:
      name: name of the target.
      libs: shared libraries, without "-l". One that a binary has no use for is
        left out of it (bazel's toolchain would record all of them, and the
        loader would map all of them at each start).
      static_libs: archives, without "-l".
      deps: libraries of this package that this one's headers need.
      **kwargs: passed to cc_library.
    """
    shared = ["-Wl,--push-state,--as-needed"] + ["-l" + lib for lib in libs] + ["-Wl,--pop-state"]
    native.cc_library(
        name = name,
        linkopts = ["-l" + lib for lib in static_libs] + (shared if libs else []),
        deps = deps,
        **kwargs
    )
