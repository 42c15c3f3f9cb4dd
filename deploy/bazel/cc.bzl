"""The project's C++ rules: the native ones with the project's flags.

Includes are written from the root of the repository:
`#include "daemon/base/units.h"`.
"""

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    # A designated initialiser names the fields it sets; the rest are defaults.
    "-Wno-missing-field-initializers",
    # g++ 12 reports these two wrongly in optimised std::string, std::optional
    # and absl::StatusOr code. clang does not know them and would say so.
    "-Wno-restrict",
    "-Wno-maybe-uninitialized",
    "-Wno-unknown-warning-option",
]

def _copts(srcs, copts):
    # The flag is an error for C, and the client's interface is tested from C.
    if type(srcs) == "list" and [s for s in srcs if s.endswith(".c")]:
        return _WARNINGS + copts
    return _WARNINGS + ["-std=c++20"] + copts

def hp_cc_library(name, srcs = [], copts = [], **kwargs):
    """cc_library with the project's flags; takes all its attributes.

    Built as an archive only: tests and binaries link statically, and the one
    shared library that is shipped says so itself (linkshared).

    Args:
      name: name of the target.
      srcs: C++ sources, or C sources; not both.
      copts: flags that come after the project's.
      **kwargs: passed to cc_library.
    """
    kwargs.setdefault("linkstatic", True)
    native.cc_library(
        name = name,
        srcs = srcs,
        copts = _copts(srcs, copts),
        **kwargs
    )

def hp_cc_binary(name, srcs = [], copts = [], **kwargs):
    """cc_binary with the project's flags; takes all its attributes.

    Args:
      name: name of the target.
      srcs: C++ sources, or C sources; not both.
      copts: flags that come after the project's.
      **kwargs: passed to cc_binary.
    """
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = _copts(srcs, copts),
        **kwargs
    )

def hp_cc_test(name, srcs = [], deps = [], copts = [], size = "small", gtest_main = True, **kwargs):
    """cc_test with the project's flags, GoogleTest, GoogleMock and a main().

    Args:
      name: name of the target.
      srcs: C++ sources, or C sources; not both.
      deps: what is tested. GoogleTest need not be named.
      copts: flags that come after the project's.
      size: as for cc_test, but small unless told otherwise.
      gtest_main: False for a test that has its own main() (and no GoogleTest,
        unless it names //deploy/bazel/third_party:gtest).
      **kwargs: passed to cc_test (tags, data, args, timeout, ...).
    """
    kwargs.setdefault("linkstatic", True)
    main = ["//deploy/bazel/third_party:gtest_main"] if gtest_main else []
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs,
        copts = _copts(srcs, copts),
        deps = deps + main,
        **kwargs
    )
