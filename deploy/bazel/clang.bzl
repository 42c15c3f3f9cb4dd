"""The C++ toolchain that --config=clang, asan and tsan use."""

load("@bazel_tools//tools/cpp:cc_configure.bzl", "cc_autoconf_impl")

def _clang_toolchain_impl(repository_ctx):
    clang = repository_ctx.which("clang-14") or repository_ctx.which("clang")
    if not clang:
        # Only a build that asks for clang may fail for want of it.
        repository_ctx.file("BUILD", "# clang was not found when this was configured.\n")
        return
    cc_autoconf_impl(repository_ctx, {"gcc": str(clang)})

clang_toolchain = repository_rule(
    doc = "Bazel's own detection of the C++ toolchain, told to take clang.",
    implementation = _clang_toolchain_impl,
    configure = True,
    environ = ["PATH"],
    local = True,
)
