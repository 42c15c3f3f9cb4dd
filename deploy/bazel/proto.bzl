"""Protocol buffers and gRPC with Debian's protoc and grpc_cpp_plugin."""

# Imports and generated includes are written from here:
# `import "hugepool/v1/types.proto";`, `#include "hugepool/v1/types.pb.h"`.
_IMPORT_ROOT = "proto"

def _up_to_import_root(package):
    """The path from the package to the import root, for `includes`."""
    depth = len(package.split("/")) - len(_IMPORT_ROOT.split("/"))
    return "/".join([".."] * depth) if depth else "."

def hugepool_cc_proto(
        name,
        srcs,
        grpc = True,
        visibility = None,
        testonly = False):
    """Generates and compiles the C++ of one set of .proto files.

    Makes
      `name`: a cc_library with the messages and, if grpc, the services;
      `name`_descriptor_set: the file `name`.descriptor_set.pb, a
        google.protobuf.FileDescriptorSet of srcs and all they import.

    Args:
      name: name of the library.
      srcs: the .proto files, under the import root. They may import each other
        and Google's well-known types.
      grpc: whether to generate services too.
      visibility: of both targets.
      testonly: of both targets.
    """
    package = native.package_name()
    if package != _IMPORT_ROOT and not package.startswith(_IMPORT_ROOT + "/"):
        fail("hugepool_cc_proto belongs under %s/, not in %s" % (_IMPORT_ROOT, package))

    hdrs = []
    ccs = []
    for src in srcs:
        if not src.endswith(".proto") or ":" in src:
            fail("%s: not a .proto file of this package" % src)
        stem = src[:-len(".proto")]
        for kind in ["pb", "grpc.pb"] if grpc else ["pb"]:
            hdrs.append("%s.%s.h" % (stem, kind))
            ccs.append("%s.%s.cc" % (stem, kind))

    protoc = "/usr/bin/protoc --proto_path=%s --proto_path=/usr/include" % _IMPORT_ROOT
    out = "$(GENDIR)/" + _IMPORT_ROOT
    services = [
        "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
        "--grpc_out=" + out,
    ] if grpc else []
    native.genrule(
        name = name + "_generate",
        srcs = srcs,
        outs = hdrs + ccs,
        cmd = " ".join([protoc, "--cpp_out=" + out] + services + ["$(SRCS)"]),
        message = "Generating C++ of",
        testonly = testonly,
        visibility = ["//visibility:private"],
    )

    native.genrule(
        name = name + "_descriptor_set",
        srcs = srcs,
        outs = [name + ".descriptor_set.pb"],
        cmd = protoc + " --include_imports --descriptor_set_out=$@ $(SRCS)",
        testonly = testonly,
        visibility = visibility,
    )

    native.cc_library(
        name = name,
        srcs = ccs,
        hdrs = hdrs,
        # Not our code: its warnings are nothing we can act on. For the headers
        # `includes` says the same, as it makes a system include path.
        copts = [
            "-std=c++20",
            "-w",
        ],
        includes = [_up_to_import_root(package)],
        linkstatic = True,
        testonly = testonly,
        visibility = visibility,
        deps = [
            "//deploy/bazel/third_party:grpc" if grpc else "//deploy/bazel/third_party:protobuf",
        ],
    )
