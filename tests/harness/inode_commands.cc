// What a descriptor allows its holder to do to the file.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/harness/hands.h"

namespace hugepool::testing {
namespace {

// The descriptor that the line means with fd=INDEX (0).
int FdOf(Hands& h, const Line& in) {
  const Memory& m = h.Of(in);
  const uint64_t index = in.Number("fd");
  return index < m.fds.size() ? m.fds[index].get() : -1;
}

// chmod as=A mode=OCTAL
Line Chmod(Hands& h, const Line& in) {
  const auto mode =
      static_cast<mode_t>(std::stoul(in.Get("mode", "666"), nullptr, 8));
  for (const UniqueFd& fd : h.Of(in).fds) {
    if (fchmod(fd.get(), mode) != 0) return Failed("fchmod");
  }
  return Ok();
}

// punch as=A fd=I offset=N bytes=N
Line Punch(Hands& h, const Line& in) {
  if (fallocate(FdOf(h, in), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(in.Number("offset")),
                static_cast<off_t>(in.Number("bytes"))) != 0) {
    return Failed("fallocate");
  }
  return Ok();
}

// truncate as=A fd=I bytes=N
Line Truncate(Hands& h, const Line& in) {
  if (ftruncate(FdOf(h, in), static_cast<off_t>(in.Number("bytes"))) != 0) {
    return Failed("ftruncate");
  }
  return Ok();
}

// seal as=A fd=I seals=BITS
Line Seal(Hands& h, const Line& in) {
  if (fcntl(FdOf(h, in), F_ADD_SEALS, static_cast<int>(in.Number("seals"))) !=
      0) {
    return Failed("F_ADD_SEALS");
  }
  return Ok();
}

// stat as=A fd=I
Line Stat(Hands& h, const Line& in) {
  const int fd = FdOf(h, in);
  struct stat st = {};
  if (fstat(fd, &st) != 0) return Failed("fstat");
  const int flags = fcntl(fd, F_GETFD);
  const int seals = fcntl(fd, F_GET_SEALS);
  return Ok()
      .Set("size", static_cast<uint64_t>(st.st_size))
      .Set("blocks", static_cast<uint64_t>(st.st_blocks) * 512)
      .Set("blksize", static_cast<uint64_t>(st.st_blksize))
      .Set("uid", uint64_t{st.st_uid})
      .Set("mode", absl::StrCat(absl::Hex(st.st_mode & 07777)))
      .Set("inode", static_cast<uint64_t>(st.st_ino))
      .Set("cloexec", static_cast<uint64_t>(flags & FD_CLOEXEC))
      .Set("seals", static_cast<uint64_t>(seals));
}

// open_all as=A dir=/proc/PID/fd: opens what is there and looks like a memfd.
Line OpenAll(Hands& h, const Line& in) {
  Memory& m = h.Of(in);
  std::error_code failed;
  for (const auto& entry :
       std::filesystem::directory_iterator(in.Get("dir"), failed)) {
    std::error_code ignored;
    const std::string target =
        std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.rfind("/memfd:", 0) != 0) continue;
    UniqueFd fd(open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (fd.valid()) m.fds.push_back(std::move(fd));
  }
  if (failed) return Line("error").Set("code", failed.message());
  return Ok().Set("opened", static_cast<uint64_t>(m.fds.size()));
}

}  // namespace

void AddInodeCommands(CommandTable* table) {
  table->insert({{"chmod", Chmod},
                 {"punch", Punch},
                 {"truncate", Truncate},
                 {"seal", Seal},
                 {"stat", Stat},
                 {"open_all", OpenAll}});
}

}  // namespace hugepool::testing
